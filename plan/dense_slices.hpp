// The shares of a dense layer that is cut along its inputs: each slice is a stage that multiplies some of the channels
// before the layer, and the stage after them adds up their sums (nets/graph/dense_slices.hpp).
#pragma once

#include <cstddef>
#include <vector>

#include "core/stage.hpp"

namespace convoy {

/// Returns whether a stage is a slice: it multiplies all elements of some of another stage's channels, but not of all
/// of them.
bool is_dense_slice(const std::vector<Stage>& trunk, std::size_t stage);
/// Returns the number of the first slice; the number of stages where there is none.
std::size_t first_dense_slice(const std::vector<Stage>& trunk);
/// Returns whether the stage adds up slices whose sums, for a batch, are so few that one member had better add all of
/// them.
bool adds_few_slices(const std::vector<Stage>& trunk, std::size_t stage, int batch);

/// Returns the filters by member of a slice, which one member holds whole: that with most of the channels that the
/// slice reads, among the members that `may_hold` it. `filters` are those by member of the stage whose maps it reads.
/// Returns an empty vector where no member may.
std::vector<int> shares_of_slice(const std::vector<Stage>& trunk, std::size_t slice, const std::vector<int>& filters,
                                 const std::vector<bool>& may_hold);

}  // namespace convoy
