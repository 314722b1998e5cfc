// What makes a shard's maps, before the layers after it, in oneDNN's layouts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/onednn/engine.hpp"

namespace convoy {

class OnednnFront {
 public:
  virtual ~OnednnFront() = default;
  /// The layout of the batch's input that costs no conversion.
  virtual const dnnl::memory::desc& input_desc() const = 0;
  /// Of the batch, as is input_gradient(). Either may show another's memory, and another one after each call.
  virtual const dnnl::memory& output() const = 0;
  virtual const dnnl::memory& input_gradient() const = 0;

  /// The batch's input, in any layout, to output(), in samples that are one micro-batch.
  virtual void forward(const dnnl::memory& input, SampleRange samples) = 0;
  /// From the gradient by the batch's output() to input_gradient(), in samples that are one micro-batch.
  virtual void find_input_gradient(const dnnl::memory& gradient, SampleRange samples) = 0;

  // Of what has weights.
  /// From input and gradient of the whole batch.
  virtual void find_parameter_gradients(const dnnl::memory&, const dnnl::memory&) {}
  virtual void update(const UpdateStep&) {}
  virtual std::vector<Parameter> parameters() const { return {}; }
  virtual std::size_t parameter_count() const { return 0; }
  virtual void take(std::span<const Parameter>) {}
  virtual std::vector<Tensor> gradients() const { return {}; }
  virtual void set_gradients(std::span<const Tensor>) {}
};

/// Of a stage without weights; null where oneDNN has nothing for it.
std::unique_ptr<OnednnFront> make_onednn_weightless(OnednnEngine& engine, const ShardSpec& spec);

}  // namespace convoy
