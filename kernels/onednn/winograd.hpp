// Convolutions with fewer multiplications (kernels/winograd) on oneDNN's memories.
#pragma once

#include <memory>
#include <optional>

#include "kernels/onednn/channels.hpp"
#include "kernels/winograd/winograd.hpp"

namespace convoy {

/// Returns whether the passes of a shard are computed with fewer multiplications. The answer depends on the shard, with
/// the images of its micro-batches, on the processor's instructions, and on whether factors are bfloat16.
bool winograd_pays(const OnednnEngine& engine, const ShardSpec& spec);

/// The forward pass of a micro-batch and the filter gradient of a batch. Maps are in blocks of channels, as wide as a
/// vector.
class OnednnWinograd {
 public:
  /// `fused` is an activation computed with the convolution, or null.
  OnednnWinograd(OnednnEngine& engine, const ShardSpec& spec, const Activation* fused);

  const dnnl::memory::desc& input_desc() const { return input_desc_; }
  const dnnl::memory::desc& output_desc() const { return output_desc_; }
  const dnnl::memory::desc& weights_desc() const { return weights_desc_; }

  /// `input` has the layout of input_desc().
  void forward(const dnnl::memory& input, const dnnl::memory& weights, const dnnl::memory& bias,
               const dnnl::memory& output);
  void find_filter_gradient(const dnnl::memory& input, const dnnl::memory& gradient,
                            const dnnl::memory& weights_gradient, const dnnl::memory& bias_gradient);

 private:
  OnednnEngine& engine_;
  const WinogradKernels& kernels_;
  int groups_;
  WinogradShape micro_batch_;  ///< of a group, as is batch_
  WinogradShape batch_;
  Shape output_shape_;  ///< of a micro-batch
  std::optional<Activation> fused_;
  dnnl::eltwise_forward tanh_;  ///< empty for other activations
  dnnl::memory::desc input_desc_;
  dnnl::memory::desc output_desc_;
  dnnl::memory::desc weights_desc_;
  OnednnInlet input_for_filters_;
  OnednnInlet output_gradient_;
  std::vector<float> bias_;  ///< in whole blocks
};

/// Returns the input gradient of a micro-batch by the same means.
std::unique_ptr<OnednnInputGradient> make_winograd_input_gradient(OnednnEngine& engine, const ShardSpec& micro_batch);

}  // namespace convoy
