// The first dense layer of a net, cut along its inputs. On the master it would need the last maps of the whole batch.
// Cut in this way it needs none of them: a member that holds some channels of the maps multiplies these channels by
// their weights, and only sums travel, one for each unit. This is the row-parallel layer of Shoeybi et al., Megatron-LM
// (2019).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "nets/graph/net.hpp"

namespace convoy {

/// A net whose first dense layer has become stages of the trunk.
struct DenseSlices {
  /// The trunk of the whole net, a stage for each slice, and a last stage that adds up their sums. The head has the
  /// layers after the dense layer. The first slice has the biases.
  Cut cut;
  std::size_t first = 0;              ///< the number of the first slice's stage
  std::vector<FilterRange> channels;  ///< for each slice, those of the last maps that it reads
};

/// Returns why slices cannot pay or are not possible for so many members, as half a sentence for people; empty if they
/// can: there is one member, no convolution or several losses; or the first dense layer reads a single channel or the
/// single numbers of a global pooling instead of maps, or is not the first layer behind the stages.
std::string obstacle_to_slices(const Cut& whole, int members);
/// Returns the number of slices for so many members, at most 16: a multiple of the members where the net has enough
/// channels, so that equal members hold the channels of whole slices. Returns 0 where there is an obstacle.
int slices_for(const Cut& whole, int members);
/// Cuts the first dense layer of `whole` along its inputs into `count` slices of about as many channels each. Returns
/// nothing where this is not possible.
std::optional<DenseSlices> slice_dense(const Cut& whole, int count);

}  // namespace convoy
