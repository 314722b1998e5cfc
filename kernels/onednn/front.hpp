// The operation that makes a shard's maps, before the layers after it, in oneDNN's layouts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/onednn/engine.hpp"

namespace convoy {

class OnednnFront {
 public:
  virtual ~OnednnFront() = default;
  /// Returns the layout of the batch's input that needs no conversion.
  virtual const dnnl::memory::desc& input_desc() const = 0;
  /// Return the maps and the input gradient of the whole batch. Either may view another tensor's memory, and a
  /// different one after each call.
  virtual const dnnl::memory& output() const = 0;
  virtual const dnnl::memory& input_gradient() const = 0;

  /// Computes output() for the samples of one micro-batch. `input` is the batch's input in any layout.
  virtual void forward(const dnnl::memory& input, SampleRange samples) = 0;
  /// Computes input_gradient() for the samples of one micro-batch from the gradient with respect to output().
  virtual void find_input_gradient(const dnnl::memory& gradient, SampleRange samples) = 0;

  // The functions below concern operations with weights.
  /// Computes the parameters' gradients from input and output gradient of the whole batch.
  virtual void find_parameter_gradients(const dnnl::memory&, const dnnl::memory&) {}
  /// Returns whether the results are finite.
  virtual bool update(const UpdateStep&) { return true; }
  virtual std::vector<Parameter> parameters() const { return {}; }
  virtual std::size_t parameter_count() const { return 0; }
  virtual void take(std::span<const Parameter>) {}
  virtual std::vector<Tensor> gradients() const { return {}; }
  virtual void set_gradients(std::span<const Tensor>) {}
};

/// Returns the operation of a stage without weights, or null where oneDNN has no fast kernels for it.
std::unique_ptr<OnednnFront> make_onednn_weightless(OnednnEngine& engine, const ShardSpec& spec);

}  // namespace convoy
