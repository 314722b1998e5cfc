// The part of a batch norm's gradient that goes through statistics of several shards.
#pragma once

#include <span>

#include "kernels/host/laned_maps.hpp"

namespace convoy {

/// The numbers of add_slopes() by channel, with zeros for lanes that pad the channels to blocks.
struct SlopesOfChannels {
  std::span<const float> mean;
  std::span<const float> constant;
  std::span<const float> slope;
};

/// Adds constant + slope * (x - mean) to `gradient`, where x are the values of `input` in the same place. A sample has
/// `blocks` planes.
void add_slopes(const LanedMaps& maps, int blocks, const SlopesOfChannels& channels, const float* input,
                float* gradient);

}  // namespace convoy
