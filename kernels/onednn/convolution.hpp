// The convolution of one shard with its parameters, in the layouts in which it is fastest.
#pragma once

#include <optional>

#include "kernels/onednn/channels.hpp"
#include "kernels/onednn/front.hpp"

namespace convoy {

class OnednnConvolution : public OnednnFront {
 public:
  /// `fused` is an activation computed with the convolution, or null.
  OnednnConvolution(OnednnEngine& engine, const ShardSpec& spec, const Activation* fused);

  const dnnl::memory::desc& input_desc() const override { return input_desc_; }
  const dnnl::memory& output() const override { return output_; }
  const dnnl::memory& input_gradient() const override { return input_gradient_; }

  /// Computes the maps, with the fused activation.
  void forward(const dnnl::memory& input, SampleRange samples) override;
  /// `gradient` is with respect to the convolution's own output, before the activation.
  void find_input_gradient(const dnnl::memory& gradient, SampleRange samples) override;
  void find_parameter_gradients(const dnnl::memory& input, const dnnl::memory& gradient) override;
  bool update(const UpdateStep& step) override;

  /// Returns the weights, and the biases where it has any.
  std::vector<Parameter> parameters() const override;
  std::size_t parameter_count() const override { return bias_ ? 2 : 1; }
  void take(std::span<const Parameter> parameters) override;
  std::vector<Tensor> gradients() const override;
  void set_gradients(std::span<const Tensor> gradients) override;

 private:
  bool trained() const { return parts_.front().weights().trained(); }
  /// Joins the values that of_part(parameter) returns for each part's parameter.
  template <class OfPart>
  Tensor read_weights(OfPart of_part) const;
  template <class OfPart>
  void write_weights(const Tensor& from, OfPart of_part);
  /// Returns a part's weights, as a view of the weights of all channels.
  dnnl::memory weights_of(const dnnl::memory& plain, const OnednnChannels& part) const {
    return parts_.size() == 1 ? plain : channels_of(plain, part.part());
  }

  OnednnEngine& engine_;
  std::optional<Activation> fused_;
  bool keep_input_gradient_;
  Shape input_shape_;
  Shape output_shape_;
  Shape weight_shape_;
  dnnl::memory::desc plain_weights_;
  std::vector<OnednnChannels> parts_;  ///< the parts together have all input channels
  std::optional<OnednnParameter> bias_;
  dnnl::memory::desc input_desc_;
  dnnl::memory output_;
  dnnl::memory input_gradient_;
};

}  // namespace convoy
