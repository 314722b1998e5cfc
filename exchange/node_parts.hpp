// What a node is made of. For the sources of Node alone.
#pragma once

#include "exchange/node.hpp"

namespace convoy {

struct Node::Piece {
  FilterRange filters;
  std::vector<Read> reads;
  std::unique_ptr<Shard> shard;
  std::vector<std::unique_ptr<DeviceTensor>> added;  ///< what it adds
  std::unique_ptr<DeviceTensor> gradient;            ///< by its maps, where it goes backward here
  std::optional<ShardState> fresh;                   ///< of others' filters: arrived, and not yet taken
};

/// What stages at this node read, on its device: those that read the same share it.
struct Node::Input {
  Sources from;
  std::unique_ptr<DeviceTensor> maps;
  std::vector<bool> written;  ///< in the step at hand, by micro-batch
};

struct Node::Flight {
  std::size_t received = 0;  ///< values
  std::deque<Bytes> held;    ///< of a part, until its turn; of weights
};

}  // namespace convoy
