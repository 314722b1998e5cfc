// The private structs of NodeShards. Only its sources include this header.
#pragma once

#include "exchange/node_shards.hpp"

namespace convoy {

/// Parameters of filters, as they travel.
struct NodeShards::FreshWeights {
  FilterRange filters;
  std::vector<float> values;
};

struct NodeShards::Piece {
  int stage = 0;
  FilterRange filters;
  std::vector<Read> reads;
  std::unique_ptr<Shard> shard;
  bool backward = false;  ///< whether it has a backward pass here
  /// Inputs of its Add layers; null where these are another shard's maps.
  std::vector<std::unique_ptr<DeviceTensor>> added;
  /// The gradient with respect to its maps; null without a backward pass, or where it is another shard's input
  /// gradient.
  std::unique_ptr<DeviceTensor> gradient;
  std::vector<FreshWeights> fresh;  ///< parameters that arrived and are not in use yet
};

/// An input tensor on the node's device. Stages that read the same samples of the same sources share it.
struct NodeShards::Input {
  Sources from;
  SampleRange samples;                 ///< of each micro-batch
  std::unique_ptr<DeviceTensor> maps;  ///< null where the input is another shard's maps
  std::vector<bool> written;           ///< by micro-batch, whether it was written in the current step
};

}  // namespace convoy
