// The convolution of some of a stage's input channels: primitives, weights, gradients.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/onednn/engine.hpp"

namespace convoy {

/// Layouts of a convolution's maps.
struct MapLayouts {
  dnnl::memory::format_tag input;
  dnnl::memory::format_tag output;
};

/// How the gradient by a part's input is found.
enum class InputGradientBy : std::uint8_t {
  backward,  ///< oneDNN's own backward convolution
  flipped,   ///< a forward convolution of the gradient by the filters, transposed and turned by half a circle
  columns,   ///< a product with a matrix of columns
};

/// Input channels first .. first + count - 1 of a stage, and how they are convolved.
struct ChannelPart {
  int first = 0;
  int count = 0;
  MapLayouts maps;                 ///< of the forward pass
  MapLayouts for_input_gradient;   ///< of the input gradient
  MapLayouts for_filter_gradient;  ///< of the filter gradient
  InputGradientBy input_gradient_by = InputGradientBy::backward;
  /// Of what is multiplied: inputs, weights and gradients by the output. Sums, and what is kept of weights, are floats.
  dnnl::memory::data_type factors = dnnl::memory::data_type::f32;
};

/// A part's channels of maps or of weights: a view, or `whole` itself where the part is all of it.
dnnl::memory channels_of(const dnnl::memory& whole, const ChannelPart& part);

/// Of the weights of some of a stage's filters, with a dimension for the groups where it has any.
dnnl::memory::desc weights_desc(const Stage& stage, int filters, dnnl::memory::format_tag layout,
                                dnnl::memory::data_type type = dnnl::memory::data_type::f32);
/// As they lie in a tensor.
dnnl::memory::desc plain_weights_desc(const Stage& stage, int filters);

/// Finds the gradient by a part's input from the gradient by the convolution's output.
class OnednnInputGradient {
 public:
  virtual ~OnednnInputGradient() = default;
  virtual const dnnl::memory::desc& desc() const = 0;  ///< the layout that costs no conversion
  virtual void take_weights(const dnnl::memory& weights) = 0;
  virtual void find(const dnnl::memory& gradient, const dnnl::memory& input_gradient) = 0;
};

/// One part. Takes all channels of inputs and of input gradients, and uses its own; those and outputs are of a
/// micro-batch, but for the filter gradient.
class OnednnChannels {
 public:
  /// The first part sets the output and adds the bias; others add to it. `fused`: an activation to follow, or nothing.
  OnednnChannels(OnednnEngine& engine, const ShardSpec& spec, const ChannelPart& part, const Activation* fused);

  const ChannelPart& part() const { return part_; }
  const dnnl::memory::desc& input_desc() const { return input_.desc(); }
  dnnl::memory::desc output_desc() const { return forward_desc_.dst_desc(); }
  const dnnl::memory::desc& input_gradient_desc() const { return input_gradient_->desc(); }
  const OnednnParameter& weights() const { return weights_; }

  void forward(const dnnl::memory& input, const dnnl::memory& bias, const dnnl::memory& output);
  /// `bias_gradient` is written by the first part alone.
  void find_parameter_gradients(const dnnl::memory& input, const dnnl::memory& gradient,
                                const dnnl::memory& bias_gradient);
  void find_input_gradient(const dnnl::memory& gradient, const dnnl::memory& input_gradient);
  void update(const UpdateStep& step);
  void weights_changed() { forward_stale_ = backward_stale_ = true; }

 private:
  dnnl::convolution_forward::primitive_desc forward_desc(const ShardSpec& spec, const Activation* fused) const;
  dnnl::memory::desc weights_desc_of(const ShardSpec& spec, dnnl::memory::data_type type) const;
  void make_forward(const ShardSpec& spec, const Activation* fused);
  void make_filter_gradient(const ShardSpec& spec);

  OnednnEngine& engine_;
  ChannelPart part_;
  dnnl::convolution_forward::primitive_desc forward_desc_;
  dnnl::convolution_forward forward_;
  dnnl::convolution_backward_weights filter_gradient_;
  std::unique_ptr<OnednnInputGradient> input_gradient_;
  OnednnInlet input_;              ///< for forward
  OnednnInlet input_for_filters_;  ///< the same for the filter gradient
  OnednnInlet output_gradient_;    ///< for the filter gradient
  OnednnInlet forward_weights_;
  dnnl::memory taken_weights_;     ///< as forward reads them
  OnednnParameter weights_;        ///< in the forward primitive's layout, where it takes floats
  dnnl::memory weights_gradient_;  ///< in the filter gradient's layout
  bool forward_stale_ = true;      ///< the weights changed since forward took them
  bool backward_stale_ = true;     ///< or the input gradient
};

}  // namespace convoy
