// Batch norm by oneDNN.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/onednn/layers.hpp"

namespace convoy {

/// A batch norm. The functions below replace forward and backward where shards join their statistics; they do the same
/// as the functions of Shard, of which take_slopes makes input_gradient() ready.
class OnednnNorm : public OnednnLayer {
 public:
  virtual std::vector<float> moments() = 0;
  virtual void normalise(std::span<const double> joint) = 0;
  virtual std::vector<float> slopes(const dnnl::memory& gradient) = 0;
  virtual void take_slopes(std::span<const double> joint) = 0;
};

struct OnednnNormSettings {
  int moments = 1;      ///< the optimizer's tensors for each parameter
  bool fused = false;   ///< includes a following ReLU, forward and backward
  int whole_batch = 1;  ///< samples over which all shards together normalise
};

/// Returns a batch norm that reads `input`, of this shape.
std::unique_ptr<OnednnNorm> make_onednn_batch_norm(OnednnEngine& engine, const BatchNorm& layer, const Shape& shape,
                                                   const dnnl::memory& input, const OnednnNormSettings& settings);

}  // namespace convoy
