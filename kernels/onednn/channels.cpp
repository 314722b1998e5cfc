#include "kernels/onednn/channels.hpp"

#include <algorithm>

#include "kernels/host/im2col.hpp"
#include "kernels/onednn/winograd.hpp"

namespace convoy {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

memory::dims strides(const Convolution& conv) { return {conv.stride_h, conv.stride_w}; }
/// Returns the rows and columns between neighbouring weights, as oneDNN counts a dilation.
memory::dims gaps(const Convolution& conv) { return {conv.dilation_h - 1, conv.dilation_w - 1}; }
memory::dims pad_before(const Convolution& conv) { return {conv.pad.top, conv.pad.left}; }
memory::dims pad_after(const Convolution& conv) { return {conv.pad.bottom, conv.pad.right}; }

/// Returns the stage with only the part's channels.
Stage stage_of(const ShardSpec& spec, const ChannelPart& part) {
  Stage stage = spec.stage;
  stage.channels = part.count;
  return stage;
}

using Type = memory::data_type;

memory::desc input_desc_of(const ShardSpec& spec, const ChannelPart& part, memory::format_tag layout, Type type) {
  return desc_of(input_shape(stage_of(spec, part), spec.batch), layout, type);
}

memory::desc output_desc_of(const ShardSpec& spec, memory::format_tag layout, Type type = Type::f32) {
  return desc_of(conv_shape(spec.stage, spec.batch, spec.filters.count), layout, type);
}

/// Returns the bias' descriptor; parts after the first have no bias.
memory::desc bias_desc_of(const ShardSpec& spec, const ChannelPart& part) {
  if (part.first > 0 || !spec.stage.conv.bias) return {};
  return {{spec.filters.count}, memory::data_type::f32, memory::format_tag::x};
}

/// An input gradient by a oneDNN convolution.
class ConvolutionGradient : public OnednnInputGradient {
 public:
  const memory::desc& desc() const override { return desc_; }
  void find(const memory& gradient, const memory& input_gradient) override {
    const bool fits = input_gradient.get_desc() == desc_;
    if (!fits && !found_) found_ = engine_.make(desc_);
    engine_.run(primitive_, {{arguments_.gradient, gradient_.take(engine_, gradient)},
                             {DNNL_ARG_WEIGHTS, taken_weights_},
                             {arguments_.input_gradient, fits ? input_gradient : found_}});
    if (!fits) engine_.reorder(found_, input_gradient);
  }

 protected:
  struct Arguments {
    int gradient;
    int input_gradient;
  };
  ConvolutionGradient(OnednnEngine& engine, Arguments arguments) : engine_(engine), arguments_(arguments) {}
  void use(dnnl::primitive primitive, const memory::desc& gradient, const memory::desc& input_gradient) {
    primitive_ = std::move(primitive);
    gradient_ = OnednnInlet(gradient);
    desc_ = input_gradient;
  }

  OnednnEngine& engine_;
  memory taken_weights_;

 private:
  Arguments arguments_;
  dnnl::primitive primitive_;
  OnednnInlet gradient_;
  memory::desc desc_;
  memory found_;
};

/// oneDNN's own backward convolution.
class BackwardConvolution : public ConvolutionGradient {
 public:
  BackwardConvolution(OnednnEngine& engine, const ShardSpec& spec, const ChannelPart& part,
                      const dnnl::convolution_forward::primitive_desc& forward)
      : ConvolutionGradient(engine, {.gradient = DNNL_ARG_DIFF_DST, .input_gradient = DNNL_ARG_DIFF_SRC}) {
    const Convolution& conv = spec.stage.conv;
    const auto desc = onednn::describe_backward<dnnl::convolution_backward_data>(
        engine.engine, forward, algorithm::convolution_direct,
        input_desc_of(spec, part, part.for_input_gradient.input, Type::f32),
        weights_desc(stage_of(spec, part), spec.filters.count, memory::format_tag::any, part.factors),
        output_desc_of(spec, part.for_input_gradient.output, part.factors), strides(conv), gaps(conv), pad_before(conv),
        pad_after(conv));
    use(dnnl::convolution_backward_data(desc), desc.diff_dst_desc(), desc.diff_src_desc());
    weights_ = OnednnInlet(desc.weights_desc());
  }

  void take_weights(const memory& weights) override { taken_weights_ = weights_.take(engine_, weights); }

 private:
  OnednnInlet weights_;
};

/// With a stride of 1 the input gradient is the convolution of the output gradient with weights (channel, filter, row,
/// column), whose rows and columns are reversed, with the padding that gives the input's size.
class FlippedConvolution : public ConvolutionGradient {
 public:
  FlippedConvolution(OnednnEngine& engine, const ShardSpec& spec, const ChannelPart& part)
      : ConvolutionGradient(engine, {.gradient = DNNL_ARG_SRC, .input_gradient = DNNL_ARG_DST}),
        of_filters_(weight_shape(stage_of(spec, part), spec.filters.count)),
        flipped_{of_filters_.c, of_filters_.n, of_filters_.h, of_filters_.w} {
    const Convolution& conv = spec.stage.conv;
    const memory::dims before{conv.reach_h() - 1 - conv.pad.top, conv.reach_w() - 1 - conv.pad.left};
    const memory::dims after{conv.reach_h() - 1 - conv.pad.bottom, conv.reach_w() - 1 - conv.pad.right};
    const auto desc = onednn::describe<dnnl::convolution_forward>(
        engine.engine, {}, prop_kind::forward_inference, algorithm::convolution_direct,
        output_desc_of(spec, part.for_input_gradient.output, part.factors),
        desc_of(flipped_, memory::format_tag::any, part.factors),
        input_desc_of(spec, part, part.for_input_gradient.input, Type::f32), memory::dims{1, 1}, gaps(conv), before,
        after);
    use(dnnl::convolution_forward(desc), desc.src_desc(), desc.dst_desc());
    taken_weights_ = engine.make(desc.weights_desc());
    engine.scratch(flipped_.size());
  }

  void take_weights(const memory& weights) override {
    float* values = engine_.scratch(flipped_.size());
    const memory::dim taps = flipped_.h * flipped_.w;
    // The weights as (channel, filter, row, column), viewed in the layout of the filters from which they are read.
    const memory::desc transposed(dims_of(of_filters_), Type::f32,
                                  memory::dims{taps, flipped_.c * taps, flipped_.w, 1});
    engine_.reorder(weights, memory(transposed, engine_.engine, values));
    const memory::dim kernels = memory::dim{flipped_.n} * flipped_.c;
#pragma omp parallel for schedule(static)
    for (memory::dim i = 0; i < kernels; ++i) std::reverse(values + i * taps, values + (i + 1) * taps);
    engine_.reorder(memory(plain_desc(flipped_), engine_.engine, values), taken_weights_);
  }

 private:
  Shape of_filters_;
  Shape flipped_;
};

/// The input gradient as the product of output gradient and weights, whose result is the matrix that col2im turns into
/// the input gradient (im2col.hpp). Vectors run over a filter's weights, for the part's channels and the kernel's
/// places, and are full where the channels alone would fill a small part of a vector. For a 1x1 convolution the product
/// is the gradient itself, in any layout of the maps.
class ColumnsBackward : public OnednnInputGradient {
 public:
  ColumnsBackward(OnednnEngine& engine, const ShardSpec& spec, const ChannelPart& part)
      : engine_(engine),
        stage_(stage_of(spec, part)),
        weight_shape_(weight_shape(stage_, spec.filters.count)),
        found_(input_shape(stage_, spec.batch)),
        columns_(conv_shape(stage_, spec.batch, weights_of_filter())),
        plain_weights_(engine.make(plain_desc(weight_shape_))) {
    const memory::dims none{0, 0};
    const auto desc = onednn::describe<dnnl::convolution_forward>(
        engine.engine, {}, prop_kind::forward_inference, algorithm::convolution_direct,
        output_desc_of(spec, part.for_input_gradient.output),
        desc_of({weights_of_filter(), weight_shape_.n}, memory::format_tag::any),
        desc_of(columns_.shape(), memory::format_tag::any), memory::dims{1, 1}, none, none);
    product_ = dnnl::convolution_forward(desc);
    gradient_ = OnednnInlet(desc.src_desc());
    weights_ = engine.make(desc.weights_desc());
    product_columns_ = engine.make(desc.dst_desc());
    desc_ = plain_desc(found_.shape());
  }

  const memory::desc& desc() const override { return desc_; }

  void take_weights(const memory& weights) override {
    engine_.reorder(weights, plain_weights_);
    // (filters, weights of a filter), viewed as its transpose.
    const memory::desc transposed({weights_of_filter(), weight_shape_.n, 1, 1}, memory::data_type::f32,
                                  memory::dims{1, weights_of_filter(), 1, 1});
    engine_.reorder(memory(transposed, engine_.engine, plain_weights_.get_data_handle()), weights_);
  }

  void find(const memory& gradient, const memory& input_gradient) override {
    engine_.run(product_, {{DNNL_ARG_SRC, gradient_.take(engine_, gradient)},
                           {DNNL_ARG_WEIGHTS, weights_},
                           {DNNL_ARG_DST, product_columns_}});
    engine_.reorder(product_columns_, memory(plain_desc(columns_.shape()), engine_.engine, columns_.data()));
#pragma omp parallel for schedule(static)
    for (int n = 0; n < found_.shape().n; ++n) {
      std::fill_n(&found_.at(n, 0), found_.shape().sample_size(), 0.0F);
      col2im(stage_, &columns_.at(n, 0), &found_.at(n, 0));
    }
    engine_.reorder(memory(desc_, engine_.engine, found_.data()), input_gradient);
  }

 private:
  int weights_of_filter() const { return weight_shape_.c * weight_shape_.h * weight_shape_.w; }

  OnednnEngine& engine_;
  Stage stage_;
  Shape weight_shape_;
  Tensor found_;
  Tensor columns_;  ///< of all samples
  memory plain_weights_;
  memory weights_;  ///< (weights of a filter, filters, 1, 1), in the layout that the product reads
  memory product_columns_;
  memory::desc desc_;
  OnednnInlet gradient_;
  dnnl::convolution_forward product_;
};

}  // namespace

memory channels_of(const memory& whole, const ChannelPart& part) {
  const memory::desc desc = whole.get_desc();
  memory::dims dims = onednn::dims_of(desc);
  if (dims[1] == part.count) return whole;
  dims[1] = part.count;
  return {desc.submemory_desc(dims, {0, part.first, 0, 0}), whole.get_engine(), whole.get_data_handle()};
}

memory::desc weights_desc(const Stage& stage, int filters, memory::format_tag layout, Type type) {
  const Shape shape = weight_shape(stage, filters);
  const int groups = stage.conv.groups;
  if (groups == 1) return desc_of(shape, layout, type);
  return {{groups, shape.n / groups, shape.c, shape.h, shape.w}, type, layout};
}

memory::desc plain_weights_desc(const Stage& stage, int filters) {
  return weights_desc(stage, filters, stage.conv.groups == 1 ? memory::format_tag::nchw : memory::format_tag::goihw);
}

OnednnChannels::OnednnChannels(OnednnEngine& engine, const ShardSpec& spec, const ChannelPart& part,
                               const Activation* fused)
    : engine_(engine), part_(part), geometry_(spec.stage.conv), may_lose_nan_(fused != nullptr && loses_nan(*fused)) {
  ShardSpec micro_batch = spec;
  micro_batch.batch /= spec.micro_batches;
  micro_batch.micro_batches = 1;
  if (part.winograd) {
    make_winograd(spec, fused);
    if (spec.input_gradient) input_gradient_ = make_winograd_input_gradient(engine, micro_batch);
    return;
  }
  make_forward(micro_batch, fused);
  if (weights_.trained()) make_filter_gradient(spec);
  if (!spec.input_gradient) return;
  switch (part.input_gradient_by) {
    case InputGradientBy::backward:
      input_gradient_ = std::make_unique<BackwardConvolution>(engine, micro_batch, part, forward_desc_);
      break;
    case InputGradientBy::flipped:
      input_gradient_ = std::make_unique<FlippedConvolution>(engine, micro_batch, part);
      break;
    case InputGradientBy::columns:
      input_gradient_ = std::make_unique<ColumnsBackward>(engine, micro_batch, part);
      break;
  }
}

OnednnChannels::OnednnChannels(OnednnChannels&&) noexcept = default;
OnednnChannels::~OnednnChannels() = default;

void OnednnChannels::make_winograd(const ShardSpec& spec, const Activation* fused) {
  winograd_ = std::make_unique<OnednnWinograd>(engine_, spec, fused);
  input_ = OnednnInlet(winograd_->input_desc());
  output_desc_ = winograd_->output_desc();
  weights_ = OnednnParameter(engine_, winograd_->weights_desc(), spec.stage.conv.rate, spec.stage.moments);
}

memory::desc OnednnChannels::weights_desc_of(const ShardSpec& spec, Type type) const {
  return weights_desc(stage_of(spec, part_), spec.filters.count, memory::format_tag::any, type);
}

dnnl::convolution_forward::primitive_desc OnednnChannels::forward_desc(const ShardSpec& spec,
                                                                       const Activation* fused) const {
  dnnl::post_ops operations;
  if (part_.first > 0) operations.append_sum();
  if (fused != nullptr) {
    const OnednnEltwise eltwise = onednn_eltwise(*fused);
    onednn::append_activation(operations, eltwise.algorithm, eltwise.alpha, eltwise.beta);
  }
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(operations);
  const Convolution& conv = spec.stage.conv;
  return onednn::describe<dnnl::convolution_forward>(
      engine_.engine, attributes, prop_kind::forward_training, algorithm::convolution_direct,
      input_desc_of(spec, part_, part_.maps.input, part_.factors), weights_desc_of(spec, part_.factors),
      bias_desc_of(spec, part_), output_desc_of(spec, part_.maps.output), strides(conv), gaps(conv), pad_before(conv),
      pad_after(conv));
}

void OnednnChannels::make_forward(const ShardSpec& spec, const Activation* fused) {
  forward_desc_ = forward_desc(spec, fused);
  forward_ = dnnl::convolution_forward(forward_desc_);
  input_ = OnednnInlet(forward_desc_.src_desc());
  output_desc_ = forward_desc_.dst_desc();
  forward_weights_ = OnednnInlet(forward_desc_.weights_desc());
  const bool floats = part_.factors == Type::f32;
  const memory::desc kept =
      floats ? forward_desc_.weights_desc() : plain_weights_desc(stage_of(spec, part_), spec.filters.count);
  weights_ = OnednnParameter(engine_, kept, spec.stage.conv.rate, spec.stage.moments);
}

void OnednnChannels::make_filter_gradient(const ShardSpec& spec) {
  const Convolution& conv = spec.stage.conv;
  const auto desc = onednn::describe_backward<dnnl::convolution_backward_weights>(
      engine_.engine, forward_desc(spec, nullptr), algorithm::convolution_direct,
      input_desc_of(spec, part_, part_.for_filter_gradient.input, part_.factors), weights_desc_of(spec, Type::f32),
      bias_desc_of(spec, part_), output_desc_of(spec, part_.for_filter_gradient.output, part_.factors), strides(conv),
      gaps(conv), pad_before(conv), pad_after(conv));
  filter_gradient_ = dnnl::convolution_backward_weights(desc);
  input_for_filters_ = OnednnInlet(desc.src_desc());
  output_gradient_ = OnednnInlet(desc.diff_dst_desc());
  weights_gradient_ = desc.diff_weights_desc() == weights_.gradient.get_desc() ? weights_.gradient
                                                                               : engine_.make(desc.diff_weights_desc());
}

std::unordered_map<int, memory> OnednnChannels::forward_arguments(const memory& input, const memory& bias,
                                                                  const memory& output) {
  if (forward_stale_) taken_weights_ = forward_weights_.take(engine_, weights_.values);
  forward_stale_ = false;
  return {{DNNL_ARG_SRC, input_.take(engine_, channels_of(input, part_))},
          {DNNL_ARG_WEIGHTS, taken_weights_},
          {DNNL_ARG_BIAS, part_.first > 0 ? memory() : bias},
          {DNNL_ARG_DST, output}};
}

bool OnednnChannels::forward(const memory& input, const memory& bias, const memory& output) {
  if (winograd_ != nullptr) {
    winograd_->forward(input_.take(engine_, input), weights_.values, bias, output);
    return true;
  }
  if (may_lose_nan_) return engine_.run_relu(forward_, forward_arguments(input, bias, output));
  engine_.run(forward_, forward_arguments(input, bias, output));
  return true;
}

void OnednnChannels::convolve(const memory& input, const memory& bias, const memory& output) {
  dnnl::post_ops operations;
  if (part_.first > 0) operations.append_sum();
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(operations);
  const auto desc = onednn::describe<dnnl::convolution_forward>(
      engine_.engine, attributes, prop_kind::forward_training, algorithm::convolution_direct, forward_desc_.src_desc(),
      forward_desc_.weights_desc(), forward_desc_.bias_desc(), forward_desc_.dst_desc(), strides(geometry_),
      gaps(geometry_), pad_before(geometry_), pad_after(geometry_));
  engine_.run(dnnl::convolution_forward(desc), forward_arguments(input, bias, output));
}

void OnednnChannels::find_parameter_gradients(const memory& input, const memory& gradient,
                                              const memory& bias_gradient) {
  if (winograd_ != nullptr) {
    return winograd_->find_filter_gradient(input, gradient, weights_.gradient, bias_gradient);
  }
  engine_.run(filter_gradient_, {{DNNL_ARG_SRC, input_for_filters_.take(engine_, channels_of(input, part_))},
                                 {DNNL_ARG_DIFF_DST, output_gradient_.take(engine_, gradient)},
                                 {DNNL_ARG_DIFF_WEIGHTS, weights_gradient_},
                                 {DNNL_ARG_DIFF_BIAS, part_.first > 0 ? memory() : bias_gradient}});
  if (weights_gradient_ != weights_.gradient) engine_.reorder(weights_gradient_, weights_.gradient);
}

void OnednnChannels::find_input_gradient(const memory& gradient, const memory& input_gradient) {
  if (backward_stale_) input_gradient_->take_weights(weights_.values);
  backward_stale_ = false;
  input_gradient_->find(gradient, channels_of(input_gradient, part_));
}

bool OnednnChannels::update(const UpdateStep& step) {
  if (weights_.trained()) weights_changed();
  return weights_.update(step);
}

}  // namespace convoy
