// The convolution of a part of a stage's input channels: primitives, weights, gradients.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/onednn/engine.hpp"

namespace convoy {

/// The layouts of a convolution's input and output maps.
struct MapLayouts {
  dnnl::memory::format_tag input;
  dnnl::memory::format_tag output;
};

/// The method that computes the gradient with respect to a part's input.
enum class InputGradientBy : std::uint8_t {
  backward,  ///< oneDNN's own backward convolution
  flipped,   ///< a forward convolution of the output gradient with the filters, transposed and rotated by 180 degrees
  columns,   ///< a matrix product followed by col2im
};

/// Input channels first .. first + count - 1 of a stage, and how they are convolved.
struct ChannelPart {
  int first = 0;
  int count = 0;
  MapLayouts maps;                 ///< of the forward pass
  MapLayouts for_input_gradient;   ///< of the input gradient
  MapLayouts for_filter_gradient;  ///< of the filter gradient
  InputGradientBy input_gradient_by = InputGradientBy::backward;
  /// The number type of the factors: inputs, weights and output gradients. Sums and stored weights are floats.
  dnnl::memory::data_type factors = dnnl::memory::data_type::f32;
  bool winograd = false;  ///< all passes by kernels/winograd; the layouts above then do not count
};

/// Returns a part's channels of maps or of weights: a view, or `whole` itself where the part has all channels.
dnnl::memory channels_of(const dnnl::memory& whole, const ChannelPart& part);

/// Returns the descriptor of the weights of `filters` filters, with a dimension for the groups where there are several.
dnnl::memory::desc weights_desc(const Stage& stage, int filters, dnnl::memory::format_tag layout,
                                dnnl::memory::data_type type = dnnl::memory::data_type::f32);
/// Returns the descriptor of these weights in a row-major tensor.
dnnl::memory::desc plain_weights_desc(const Stage& stage, int filters);

class OnednnWinograd;

/// Computes the gradient with respect to a part's input from the gradient with respect to the convolution's output.
class OnednnInputGradient {
 public:
  virtual ~OnednnInputGradient() = default;
  virtual const dnnl::memory::desc& desc() const = 0;  ///< the layout that costs no conversion
  virtual void take_weights(const dnnl::memory& weights) = 0;
  virtual void find(const dnnl::memory& gradient, const dnnl::memory& input_gradient) = 0;
};

/// The convolution of one part. It is given all channels of inputs and input gradients, and uses its own. Maps and
/// gradients are those of a micro-batch, except in find_parameter_gradients(), which takes the whole batch.
class OnednnChannels {
 public:
  /// The first part sets the output and adds the bias; the other parts add to it. `fused` is an activation that the
  /// last part applies, or null.
  OnednnChannels(OnednnEngine& engine, const ShardSpec& spec, const ChannelPart& part, const Activation* fused);
  OnednnChannels(OnednnChannels&&) noexcept;
  ~OnednnChannels();

  const ChannelPart& part() const { return part_; }
  const dnnl::memory::desc& input_desc() const { return input_.desc(); }
  const dnnl::memory::desc& output_desc() const { return output_desc_; }
  const dnnl::memory::desc& input_gradient_desc() const { return input_gradient_->desc(); }
  const OnednnParameter& weights() const { return weights_; }

  /// Returns false where the activation may have turned NaN into zero (OnednnEngine::run_relu).
  [[nodiscard]] bool forward(const dnnl::memory& input, const dnnl::memory& bias, const dnnl::memory& output);
  /// The same without the activation, and slower.
  void convolve(const dnnl::memory& input, const dnnl::memory& bias, const dnnl::memory& output);
  /// Only the first part writes `bias_gradient`.
  void find_parameter_gradients(const dnnl::memory& input, const dnnl::memory& gradient,
                                const dnnl::memory& bias_gradient);
  void find_input_gradient(const dnnl::memory& gradient, const dnnl::memory& input_gradient);
  /// Returns whether the results are finite.
  [[nodiscard]] bool update(const UpdateStep& step);
  void weights_changed() { forward_stale_ = backward_stale_ = true; }

 private:
  dnnl::convolution_forward::primitive_desc forward_desc(const ShardSpec& spec, const Activation* fused) const;
  dnnl::memory::desc weights_desc_of(const ShardSpec& spec, dnnl::memory::data_type type) const;
  std::unordered_map<int, dnnl::memory> forward_arguments(const dnnl::memory& input, const dnnl::memory& bias,
                                                          const dnnl::memory& output);
  void make_winograd(const ShardSpec& spec, const Activation* fused);
  void make_forward(const ShardSpec& spec, const Activation* fused);
  void make_filter_gradient(const ShardSpec& spec);

  OnednnEngine& engine_;
  ChannelPart part_;
  Convolution geometry_;
  bool may_lose_nan_;  ///< in the forward pass, by the activation that it includes
  dnnl::convolution_forward::primitive_desc forward_desc_;
  dnnl::convolution_forward forward_;
  dnnl::convolution_backward_weights filter_gradient_;
  std::unique_ptr<OnednnWinograd> winograd_;  ///< null where oneDNN's primitives above compute the passes
  std::unique_ptr<OnednnInputGradient> input_gradient_;
  dnnl::memory::desc output_desc_;
  OnednnInlet input_;              ///< input of the forward pass
  OnednnInlet input_for_filters_;  ///< input of the filter gradient
  OnednnInlet output_gradient_;    ///< output gradient of the filter gradient
  OnednnInlet forward_weights_;
  dnnl::memory taken_weights_;     ///< in the layout and type that the forward pass reads
  OnednnParameter weights_;        ///< in the forward primitive's layout where it reads floats
  dnnl::memory weights_gradient_;  ///< in the filter gradient's layout
  bool forward_stale_ = true;      ///< the weights changed since the forward pass took them
  bool backward_stale_ = true;     ///< the weights changed since the input gradient took them
};

}  // namespace convoy
