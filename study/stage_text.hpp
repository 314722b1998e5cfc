// Convolutions as words, so that a program that reads no net files can study a net's stages:
//
//   3x32x32:50x5x5          50 filters of 5 rows and 5 columns over 3 maps of 32 x 32
//   64x56x56:128x3x3:s2:p1  with stride 2, and 1 zero around each map
//   32x28x28:32x3x3:p0x1x1x0:g32   4 paddings are those at the top, left, bottom and right; the filters are in 32
//                                  groups
#pragma once

#include <string>
#include <vector>

#include "core/stage.hpp"

namespace convoy::study {

/// Returns the stages of words that are separated by commas. Throws Error naming the word.
std::vector<Stage> stages_from(const std::string& text);

/// Returns the words of the stages that are convolutions.
std::string text_of(const std::vector<Stage>& stages);

/// Returns the numbers of filters of the stages that are convolutions, as in "50:500".
std::string filters_of(const std::vector<Stage>& stages);

}  // namespace convoy::study
