// Computes a training step of a slave's tile again, on the master's device and from host tensors.
#pragma once

#include <memory>
#include <vector>

#include "exchange/node.hpp"
#include "master/cluster/verifiable.hpp"

namespace convoy {

/// What goes into the computation of a tile.
struct TileInputs {
  std::vector<Tensor> maps;  ///< the input of the stage, then those of its Add layers for the tile's filters
  Tensor gradient;           ///< with respect to the tile's maps; empty for a forward pass alone
  ShardState state;          ///< before the step
};

/// What comes out of it.
struct TileResults {
  Tensor maps;
  std::map<int, Tensor> parts;    ///< parts of the gradients with respect to the maps of the stages read, all channels
  std::vector<Tensor> gradients;  ///< of the parameters, as Shard::gradients() returns them
  ShardState state;               ///< after the update; without a gradient, before it
};

/// Collects the maps that a tile reads from the master's node, rounded as they travel; images are exact.
std::vector<Tensor> maps_read(const VerifiableTile& tile, const Plan& plan, const Node& master);

class TileRun {
 public:
  /// Compiles the tile. Throws Error if the device cannot hold it. The trunk must outlive the run.
  TileRun(const VerifiableTile& tile, const std::vector<Stage>& trunk, int batch, Device& device);

  /// May be called again with other inputs.
  TileResults run(const TileInputs& inputs, const Pass& pass, const UpdateStep& step);

 private:
  void add_part(std::size_t number, const DeviceTensor& gradient, std::map<int, Tensor>& parts) const;

  const std::vector<Stage>& trunk_;
  std::vector<Read> reads_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<DeviceTensor> input_;
  std::vector<std::unique_ptr<DeviceTensor>> added_;
};

}  // namespace convoy
