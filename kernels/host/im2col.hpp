// Convolution as matrix product: the columns of a sample's windows.
#pragma once

#include "core/stage.hpp"

namespace convoy {

/// Writes one sample (channels, height, width) as a matrix of (channels * kernel_h * kernel_w) rows, one for each
/// weight of a filter, by (output rows * output columns) columns; zeros where a window hangs over the border.
void im2col(const Stage& stage, const float* image, float* columns);
/// The reverse for gradients: adds every element of the matrix to where im2col took it from. `image` starts at zero.
void col2im(const Stage& stage, const float* columns, float* image);

}  // namespace convoy
