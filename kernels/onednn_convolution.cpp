#include "kernels/onednn_convolution.hpp"

#include <cstring>

namespace convoy {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

memory::desc bias_desc(int filters) { return {{filters}, memory::data_type::f32, memory::format_tag::x}; }

memory::dims strides(const Convolution& conv) { return {conv.stride_h, conv.stride_w}; }
memory::dims pad_before(const Convolution& conv) { return {conv.pad.top, conv.pad.left}; }
memory::dims pad_after(const Convolution& conv) { return {conv.pad.bottom, conv.pad.right}; }

// Left to itself ("any") oneDNN 2.6 blocks channels by the vector's width and computes on the padding: 28 % more work
// for 50 channels. Channels last, its kernels for AVX-512 need no padding of the input, and those of the forward pass
// and the input gradient gain with many channels too. The limits are measured (convoy-bench conv); rules and not
// timings decide, so that equal runs take equal kernels and give equal bits.

constexpr int kAvx512 = 16;

bool blocks_badly(const Stage& stage, int vector_width) {
  const int padding = (vector_width - stage.channels % vector_width) % vector_width;
  return vector_width == kAvx512 && stage.channels > vector_width && 25 * padding > stage.channels;
}

/// For the forward pass and the input gradient.
memory::format_tag maps_layout(const Stage& stage, int vector_width) {
  const bool many = vector_width == kAvx512 && stage.channels >= 256;
  return many || blocks_badly(stage, vector_width) ? memory::format_tag::nhwc : memory::format_tag::any;
}

memory::format_tag filter_gradient_layout(const Stage& stage, int vector_width) {
  return blocks_badly(stage, vector_width) ? memory::format_tag::nhwc : memory::format_tag::any;
}

void clear(const memory& target) { std::memset(target.get_data_handle(), 0, target.get_desc().get_size()); }

/// SGD on whole buffers: the layout does not matter, and padding stays zero because its gradient is.
void apply(const SgdStep& step, const memory& values, const memory& velocity, const memory& gradient) {
  auto* w = static_cast<float*>(values.get_data_handle());
  auto* v = static_cast<float*>(velocity.get_data_handle());
  const auto* g = static_cast<const float*>(gradient.get_data_handle());
  const std::size_t count = values.get_desc().get_size() / sizeof(float);
  const float rate = step.learning_rate;
  const float momentum = step.momentum;
  const float decay = step.weight_decay;
#pragma omp parallel for schedule(static) if (count > 65536)
  for (std::size_t i = 0; i < count; ++i) {
    v[i] = momentum * v[i] + (g[i] + decay * w[i]);
    w[i] -= rate * v[i];
  }
}

void copy_in(const Tensor& from, const memory& to) { std::memcpy(to.get_data_handle(), from.data(), from.bytes()); }
void copy_out(const memory& from, Tensor& to) { std::memcpy(to.data(), from.get_data_handle(), to.bytes()); }

}  // namespace

OnednnConvolution::OnednnConvolution(OnednnEngine& engine, const ShardSpec& spec, const Activation* fused)
    : engine_(engine),
      weight_shape_(weight_shape(spec.stage, spec.filters.count)),
      input_desc_(desc_of(input_shape(spec.stage, spec.batch), maps_layout(spec.stage, engine.vector_width))),
      output_desc_(desc_of(conv_shape(spec.stage, spec.batch, spec.filters.count),
                           maps_layout(spec.stage, engine.vector_width))) {
  make_forward(spec, fused);
  make_weight_gradient(spec);
  if (spec.input_gradient) make_input_gradient(spec);
}

void OnednnConvolution::make_forward(const ShardSpec& spec, const Activation* fused) {
  dnnl::primitive_attr attributes;
  if (fused != nullptr) {
    dnnl::post_ops operations;
    operations.append_eltwise(1.0F, onednn_algorithm(*fused), 0.0F, 0.0F);
    attributes.set_post_ops(operations);
  }
  const int filters = spec.filters.count;
  const Convolution& conv = spec.stage.conv;
  forward_desc_ = {{prop_kind::forward_training, algorithm::convolution_direct, input_desc_,
                    desc_of(weight_shape_, memory::format_tag::any), bias_desc(filters), output_desc_, strides(conv),
                    pad_before(conv), pad_after(conv)},
                   attributes,
                   engine_.engine};
  forward_ = dnnl::convolution_forward(forward_desc_);
  input_ = OnednnInlet(forward_desc_.src_desc());
  output_ = engine_.make(forward_desc_.dst_desc());
  weights_ = engine_.make(forward_desc_.weights_desc());
  weight_velocity_ = engine_.make(forward_desc_.weights_desc());
  weight_slope_ = engine_.make(forward_desc_.weights_desc());
  bias_ = engine_.make(bias_desc(filters));
  bias_velocity_ = engine_.make(bias_desc(filters));
  bias_slope_ = engine_.make(bias_desc(filters));
  for (const memory* part : {&weights_, &weight_velocity_, &weight_slope_, &bias_, &bias_velocity_, &bias_slope_}) {
    clear(*part);
  }
}

void OnednnConvolution::make_weight_gradient(const ShardSpec& spec) {
  const Convolution& conv = spec.stage.conv;
  const int filters = spec.filters.count;
  const memory::format_tag layout = filter_gradient_layout(spec.stage, engine_.vector_width);
  const dnnl::convolution_backward_weights::primitive_desc desc(
      {algorithm::convolution_direct, desc_of(input_shape(spec.stage, spec.batch), layout),
       desc_of(weight_shape_, memory::format_tag::any), bias_desc(filters),
       desc_of(conv_shape(spec.stage, spec.batch, filters), layout), strides(conv), pad_before(conv), pad_after(conv)},
      engine_.engine, forward_desc_);
  weight_gradient_ = dnnl::convolution_backward_weights(desc);
  gradient_input_ = OnednnInlet(desc.src_desc());
  gradient_ = OnednnInlet(desc.diff_dst_desc());
  weight_slope_found_ =
      desc.diff_weights_desc() == weights_.get_desc() ? weight_slope_ : engine_.make(desc.diff_weights_desc());
}

void OnednnConvolution::make_input_gradient(const ShardSpec& spec) {
  const Convolution& conv = spec.stage.conv;
  const dnnl::convolution_backward_data::primitive_desc desc(
      {algorithm::convolution_direct, input_desc_, desc_of(weight_shape_, memory::format_tag::any), output_desc_,
       strides(conv), pad_before(conv), pad_after(conv)},
      engine_.engine, forward_desc_);
  input_gradient_primitive_ = dnnl::convolution_backward_data(desc);
  gradient_for_data_ = OnednnInlet(desc.diff_dst_desc());
  input_gradient_ = engine_.make(desc.diff_src_desc());
  weights_for_data_ = desc.weights_desc() == weights_.get_desc() ? weights_ : engine_.make(desc.weights_desc());
}

void OnednnConvolution::forward(const memory& input) {
  engine_.run(forward_, {{DNNL_ARG_SRC, input_.take(engine_, input)},
                         {DNNL_ARG_WEIGHTS, weights_},
                         {DNNL_ARG_BIAS, bias_},
                         {DNNL_ARG_DST, output_}});
}

void OnednnConvolution::find_parameter_gradients(const memory& input, const memory& gradient) {
  engine_.run(weight_gradient_, {{DNNL_ARG_SRC, gradient_input_.take(engine_, input)},
                                 {DNNL_ARG_DIFF_DST, gradient_.take(engine_, gradient)},
                                 {DNNL_ARG_DIFF_WEIGHTS, weight_slope_found_},
                                 {DNNL_ARG_DIFF_BIAS, bias_slope_}});
  if (weight_slope_found_ != weight_slope_) engine_.reorder(weight_slope_found_, weight_slope_);
}

void OnednnConvolution::find_input_gradient(const memory& gradient) {
  if (weights_changed_ && weights_for_data_ != weights_) engine_.reorder(weights_, weights_for_data_);
  weights_changed_ = false;
  engine_.run(input_gradient_primitive_, {{DNNL_ARG_DIFF_DST, gradient_for_data_.take(engine_, gradient)},
                                          {DNNL_ARG_WEIGHTS, weights_for_data_},
                                          {DNNL_ARG_DIFF_SRC, input_gradient_}});
}

void OnednnConvolution::update(const SgdStep& step) {
  apply(step, weights_, weight_velocity_, weight_slope_);
  apply(step, bias_, bias_velocity_, bias_slope_);
  weights_changed_ = true;
}

void OnednnConvolution::export_weights(const memory& from, Tensor& to) const {
  engine_.reorder(from, memory(plain_desc(weight_shape_), engine_.engine, to.data()));
}

void OnednnConvolution::import_weights(const Tensor& from, const memory& to) const {
  engine_.reorder(memory(plain_desc(weight_shape_), engine_.engine, const_cast<float*>(from.data())), to);
}

ShardState OnednnConvolution::state() const {
  const Shape bias{weight_shape_.n, 1};
  ShardState state{Tensor(weight_shape_), Tensor(bias), Tensor(weight_shape_), Tensor(bias)};
  export_weights(weights_, state.weights);
  export_weights(weight_velocity_, state.weight_velocity);
  copy_out(bias_, state.bias);
  copy_out(bias_velocity_, state.bias_velocity);
  return state;
}

void OnednnConvolution::set_state(const ShardState& state) {
  invariant(state.weights.shape() == weight_shape_, "a state of the shard's shape");
  import_weights(state.weights, weights_);
  import_weights(state.weight_velocity, weight_velocity_);
  copy_in(state.bias, bias_);
  copy_in(state.bias_velocity, bias_velocity_);
  weights_changed_ = true;
}

void OnednnConvolution::gradients(Tensor& weights, Tensor& bias) const {
  weights = Tensor(weight_shape_);
  bias = Tensor({weight_shape_.n, 1});
  export_weights(weight_slope_, weights);
  copy_out(bias_slope_, bias);
}

}  // namespace convoy
