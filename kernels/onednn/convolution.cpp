#include "kernels/onednn/convolution.hpp"

#include "kernels/onednn/host_activation.hpp"
#include "kernels/onednn/winograd.hpp"

namespace convoy {
namespace {

using dnnl::memory;
using Layout = memory::format_tag;

// With the layout left to oneDNN 2.6 ("any"), it pads channels to blocks of the vector's width and computes on the
// padding, which is 28 % more work for 50 channels. Where few channels remain beyond whole blocks, the blocks and the
// remainder are computed separately, without padding. Otherwise the maps are channels-last: the kernels of the forward
// pass and of the filter gradient then need no padding of the input, and with many channels and enough filters they are
// faster anyway. The limits were measured with convoy-bench conv. Rules decide instead of timings, so that equal runs
// choose equal kernels and give equal bits.

constexpr int kAvx512 = 16;
constexpr int kAvx2 = 8;

bool blocks_badly(const Stage& stage, int vector_width) {
  const int padding = (vector_width - stage.channels % vector_width) % vector_width;
  return vector_width == kAvx512 && stage.channels > vector_width && 25 * padding > stage.channels;
}

/// Returns whether oneDNN has fast kernels for the remaining channels alone, and the input is small enough for the
/// saved padding to outweigh a second pass over the output.
bool split_pays(const Stage& stage, int vector_width) {
  const Convolution& conv = stage.conv;
  const auto usual = [](int kernel, int stride, int before, int after) {
    return kernel > 1 && kernel <= 7 && stride == 1 && 2 * std::max(before, after) <= kernel;
  };
  const int left_over = stage.channels % kAvx512;
  return blocks_badly(stage, vector_width) && !conv.dilated() && left_over <= 3 && stage.channels < 8 * kAvx512 &&
         usual(conv.kernel_h, conv.stride_h, conv.pad.top, conv.pad.bottom) &&
         usual(conv.kernel_w, conv.stride_w, conv.pad.left, conv.pad.right);
}

/// One part with all channels and the same layout for all passes.
ChannelPart one_part(const Stage& stage, Layout layout, memory::data_type factors) {
  return {.first = 0,
          .count = stage.channels,
          .maps = {layout, layout},
          .for_input_gradient = {layout, layout},
          .for_filter_gradient = {layout, layout},
          .factors = factors};
}

/// Two parts: whole blocks of channels, and the remainder.
std::vector<ChannelPart> split(const Stage& stage) {
  const int whole = stage.channels / kAvx512 * kAvx512;
  const MapLayouts blocks{Layout::nChw16c, Layout::nChw16c};
  const MapLayouts rest{Layout::nchw, Layout::nChw16c};
  return {{.first = 0, .count = whole, .maps = blocks, .for_input_gradient = blocks, .for_filter_gradient = blocks},
          {.first = whole,
           .count = stage.channels - whole,
           .maps = rest,
           .for_input_gradient = rest,
           .for_filter_gradient = rest,
           .input_gradient_by = InputGradientBy::columns}};
}

std::vector<ChannelPart> parts_of(const ShardSpec& spec, const OnednnEngine& engine) {
  const Stage& stage = spec.stage;
  const int filters = spec.filters.count;
  if (winograd_pays(engine, spec)) return {{.count = stage.channels, .maps = {}, .winograd = true}};
  const int vector_width = engine.vector_width;
  // With few channels the bfloat16 instructions have little to multiply, and floats are faster.
  const bool bf16 = engine.bf16 && stage.channels / stage.conv.groups >= kAvx512;
  const memory::data_type factors = bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  if (stage.conv.groups > 1) return {one_part(stage, Layout::any, factors)};
  if (!bf16 && split_pays(stage, vector_width)) return split(stage);

  const bool badly = blocks_badly(stage, vector_width);
  const bool many = vector_width == kAvx512 && stage.channels >= 256 && filters >= 64 && !(bf16 && engine.amx);
  ChannelPart part = one_part(stage, many || badly ? Layout::nhwc : Layout::any, factors);
  const bool steps = stage.conv.stride_h > 1 || stage.conv.stride_w > 1;
  // With AVX2, oneDNN's backward convolution is slow for an incomplete block of channels: the forward convolution is
  // 1.4 to 1.6 times as fast with 50 and 100 channels (Zen 3). With fewer channels, turning the filters costs too much.
  const bool incomplete = stage.channels > 4 * kAvx2 && stage.channels % kAvx2 != 0;
  if (vector_width == kAvx2 && incomplete && filters >= 64 && !steps) {
    part.input_gradient_by = InputGradientBy::flipped;
  }
  if (filters < 256) return {part};
  // With many filters, oneDNN's backward convolution is slower than its forward convolution: on AMD's processors (Zen
  // 5) by a fifth for channels-last maps and by a quarter with bfloat16, and with Intel's AMX by half.
  if (!steps && (bf16 || (many && engine.amd))) part.input_gradient_by = InputGradientBy::flipped;
  // For one of the gradients, the speed in blocks pays for the change of layout: the filter gradient on Intel's
  // processors (Sapphire Rapids), the input gradient on AMD's.
  if (many && !badly && !bf16 && !engine.amd) part.for_filter_gradient = {Layout::any, Layout::any};
  if (many && !badly && !bf16 && engine.amd && steps) part.for_input_gradient = {Layout::any, Layout::any};
  return {part};
}

}  // namespace

OnednnConvolution::OnednnConvolution(OnednnEngine& engine, const ShardSpec& spec, const Activation* fused)
    : engine_(engine),
      fused_(fused != nullptr ? std::optional(*fused) : std::nullopt),
      keep_input_gradient_(spec.keep_input_gradient),
      input_shape_(input_shape(spec.stage, spec.batch)),
      output_shape_(conv_shape(spec.stage, spec.batch, spec.filters.count)),
      weight_shape_(weight_shape(spec.stage, spec.filters.count)),
      plain_weights_(plain_weights_desc(spec.stage, spec.filters.count)) {
  if (spec.stage.conv.bias) {
    bias_.emplace(engine, memory::desc{{spec.filters.count}, memory::data_type::f32, Layout::x}, spec.stage.conv.rate,
                  spec.stage.moments);
  }
  const std::vector<ChannelPart> parts = parts_of(spec, engine);
  for (const ChannelPart& part : parts) {
    parts_.emplace_back(engine, spec, part, &part == &parts.back() ? fused : nullptr);
  }
  // Parts read their channels from plain maps, and write them there, at little cost.
  const bool whole = parts_.size() == 1;
  const auto batch_of = [&](const memory::desc& of_micro_batch, Shape shape) {
    shape.n /= spec.micro_batches;
    return with_samples(of_micro_batch, shape, spec.batch);
  };
  const memory::desc plain = plain_desc(input_shape_);
  input_desc_ = whole ? batch_of(parts_.front().input_desc(), input_shape_) : plain;
  output_ = engine.make(batch_of(parts_.front().output_desc(), output_shape_));
  if (spec.input_gradient) {
    const memory::desc desc = whole ? batch_of(parts_.front().input_gradient_desc(), input_shape_) : plain;
    input_gradient_ = engine.make_gradient(desc, keep_input_gradient_);
  }
}

void OnednnConvolution::forward(const memory& input, SampleRange samples) {
  const memory some = samples_of(input, input_shape_, samples);
  const memory output = samples_of(output_, output_shape_, samples);
  const memory bias = bias_ ? bias_->values : memory();
  bool kept = true;
  for (OnednnChannels& part : parts_) kept = part.forward(some, bias, output) && kept;
  if (kept) return;
  for (OnednnChannels& part : parts_) part.convolve(some, bias, output);
  activate_in_place(*fused_, output, {samples.count, output_shape_.c, output_shape_.h, output_shape_.w});
}

void OnednnConvolution::find_parameter_gradients(const memory& input, const memory& gradient) {
  if (!trained()) return;
  for (OnednnChannels& part : parts_) {
    part.find_parameter_gradients(input, gradient, bias_ ? bias_->gradient : memory());
  }
}

void OnednnConvolution::find_input_gradient(const memory& gradient, SampleRange samples) {
  if (!keep_input_gradient_) engine_.share(input_gradient_);
  const memory some = samples_of(gradient, output_shape_, samples);
  const memory input_gradient = samples_of(input_gradient_, input_shape_, samples);
  for (OnednnChannels& part : parts_) part.find_input_gradient(some, input_gradient);
}

bool OnednnConvolution::update(const UpdateStep& step) {
  bool finite = true;
  for (OnednnChannels& part : parts_) finite = part.update(step) && finite;
  return (!bias_ || bias_->update(step)) && finite;
}

template <class OfPart>
Tensor OnednnConvolution::read_weights(OfPart of_part) const {
  Tensor weights(weight_shape_);
  const memory plain(plain_weights_, engine_.engine, weights.data());
  for (const OnednnChannels& part : parts_) engine_.reorder(of_part(part.weights()), weights_of(plain, part));
  return weights;
}

template <class OfPart>
void OnednnConvolution::write_weights(const Tensor& from, OfPart of_part) {
  const memory plain(plain_weights_, engine_.engine, const_cast<float*>(from.data()));
  for (const OnednnChannels& part : parts_) engine_.reorder(weights_of(plain, part), of_part(part.weights()));
}

std::vector<Parameter> OnednnConvolution::parameters() const {
  std::vector<Parameter> all;
  all.push_back({read_weights([](const OnednnParameter& p) { return p.values; }), {}});
  for (std::size_t m = 0; m < parts_.front().weights().moments.size(); ++m) {
    all.front().moments.push_back(read_weights([m](const OnednnParameter& p) { return p.moments[m]; }));
  }
  if (bias_) all.push_back(bias_->list_to_host());
  return all;
}

void OnednnConvolution::take(std::span<const Parameter> parameters) {
  invariant(parameters[0].value.shape() == weight_shape_, "the state has the shard's shape");
  write_weights(parameters[0].value, [](const OnednnParameter& p) { return p.values; });
  for (std::size_t m = 0; m < parts_.front().weights().moments.size(); ++m) {
    write_weights(parameters[0].moments.at(m), [m](const OnednnParameter& p) { return p.moments[m]; });
  }
  if (bias_) bias_->take_list(parameters[1]);
  for (OnednnChannels& part : parts_) part.weights_changed();
}

std::vector<Tensor> OnednnConvolution::gradients() const {
  if (!trained()) return std::vector<Tensor>(parameter_count());
  std::vector<Tensor> all;  // an initializer list would copy the tensor
  all.push_back(read_weights([](const OnednnParameter& p) { return p.gradient; }));
  if (bias_) all.push_back(read_list(bias_->gradient));
  return all;
}

void OnednnConvolution::set_gradients(std::span<const Tensor> gradients) {
  if (!trained()) return;
  invariant(gradients[0].shape() == weight_shape_, "the gradients have the shard's shape");
  write_weights(gradients[0], [](const OnednnParameter& p) { return p.gradient; });
  if (bias_) write_list(gradients[1], bias_->gradient);
}

}  // namespace convoy
