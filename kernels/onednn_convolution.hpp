// The convolution of one shard in the layouts that are fastest for it: primitives, weights, gradients, optimizer.
#pragma once

#include "kernels/onednn_engine.hpp"

namespace convoy {

class OnednnConvolution {
 public:
  /// `fused`: an activation computed with the convolution, or nothing.
  OnednnConvolution(OnednnEngine& engine, const ShardSpec& spec, const Activation* fused);

  const dnnl::memory::desc& input_desc() const { return input_.desc(); }
  const dnnl::memory& output() const { return output_; }
  const dnnl::memory& input_gradient() const { return input_gradient_; }

  /// Input in any layout to output(), fused activation applied.
  void forward(const dnnl::memory& input);
  /// From the gradient by the convolution's own output (before the activation); `input` as in forward.
  void find_parameter_gradients(const dnnl::memory& input, const dnnl::memory& gradient);
  void find_input_gradient(const dnnl::memory& gradient);
  void update(const SgdStep& step);

  ShardState state() const;
  void set_state(const ShardState& state);
  void gradients(Tensor& weights, Tensor& bias) const;

 private:
  void make_forward(const ShardSpec& spec, const Activation* fused);
  void make_weight_gradient(const ShardSpec& spec);
  void make_input_gradient(const ShardSpec& spec);
  void export_weights(const dnnl::memory& from, Tensor& to) const;
  void import_weights(const Tensor& from, const dnnl::memory& to) const;

  OnednnEngine& engine_;
  Shape weight_shape_;
  dnnl::memory::desc input_desc_;  ///< layout asked of the primitives
  dnnl::memory::desc output_desc_;
  dnnl::convolution_forward::primitive_desc forward_desc_;
  dnnl::convolution_forward forward_;
  dnnl::convolution_backward_weights weight_gradient_;
  dnnl::convolution_backward_data input_gradient_primitive_;

  OnednnInlet input_;              ///< for forward
  OnednnInlet gradient_input_;     ///< the same for the filter gradient
  OnednnInlet gradient_;           ///< output gradient for the filter gradient
  OnednnInlet gradient_for_data_;  ///< output gradient for the input gradient
  dnnl::memory output_;
  dnnl::memory input_gradient_;

  dnnl::memory weights_, weight_velocity_, weight_slope_;  ///< in the forward primitive's layout
  dnnl::memory bias_, bias_velocity_, bias_slope_;
  dnnl::memory weight_slope_found_;  ///< in the filter gradient's layout
  dnnl::memory weights_for_data_;    ///< in the input gradient's layout
  bool weights_changed_ = true;      ///< since weights_for_data_ was made
};

}  // namespace convoy
