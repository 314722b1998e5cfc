// The private structs of Node. Only the sources of Node include this header.
#pragma once

#include "exchange/node.hpp"

namespace convoy {

struct Node::Piece {
  FilterRange filters;
  std::vector<Read> reads;
  std::unique_ptr<Shard> shard;
  std::vector<std::unique_ptr<DeviceTensor>> added;  ///< inputs of its Add layers
  std::unique_ptr<DeviceTensor> gradient;            ///< with respect to its maps; null if it has no backward pass here
  std::optional<ShardState> fresh;                   ///< state that arrived from another member and is not in use yet
};

/// An input tensor on the node's device. Stages that read the same sources share it.
struct Node::Input {
  Sources from;
  std::unique_ptr<DeviceTensor> maps;
  std::vector<bool> written;  ///< by micro-batch, whether it was written in the current step
};

struct Node::Flight {
  std::size_t received = 0;  ///< number of values that arrived
  std::deque<Bytes> held;    ///< values that cannot be used yet: addends before their turn, incomplete weights
};

}  // namespace convoy
