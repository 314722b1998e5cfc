#include "kernels/onednn/winograd.hpp"

#include <algorithm>
#include <array>

#include "kernels/onednn/host_activation.hpp"

namespace convoy {
namespace {

using dnnl::memory;
using Layout = memory::format_tag;

/// The estimate of the gain may be wrong by as much, and changes of layout around the convolution cost time, too.
constexpr double kLeastGain = 1.2;

int in_blocks(int count, int width) { return (count + width - 1) / width * width; }

Layout maps_layout(int width) { return width == 16 ? Layout::nChw16c : Layout::nChw8c; }

Layout weights_layout(int width, int groups) {
  if (groups == 1) return width == 16 ? Layout::OIhw16i16o : Layout::OIhw8i8o;
  return width == 16 ? Layout::gOIhw16i16o : Layout::gOIhw8i8o;
}

/// Where a group's values begin, in floats.
struct GroupStart {
  GroupStart(const WinogradShape& of, int group)
      : input(at(group) * of.channels * of.in_h * of.in_w),
        output(at(group) * of.filters * of.out_h * of.out_w),
        weights(at(group) * of.channels * of.filters * of.kernel * of.kernel),
        filter(at(group) * of.filters) {}
  static std::size_t at(int group) { return static_cast<std::size_t>(group); }

  std::size_t input;
  std::size_t output;
  std::size_t weights;
  std::size_t filter;
};

/// Returns the shape of a group.
WinogradShape shape_of(const ShardSpec& spec, int samples, int width) {
  const Convolution& conv = spec.stage.conv;
  const Shape in = input_shape(spec.stage, samples);
  const Shape out = conv_shape(spec.stage, samples, spec.filters.count);
  const auto floats = [&](const Shape& of) {
    return desc_of({1, of.c, of.h, of.w}, maps_layout(width)).get_size() / sizeof(float);
  };
  return {.samples = samples,
          .channels = in_blocks(spec.stage.channels / conv.groups, width),
          .filters = in_blocks(spec.filters.count / conv.groups, width),
          .in_h = in.h,
          .in_w = in.w,
          .out_h = out.h,
          .out_w = out.w,
          .kernel = conv.kernel_h,
          .pad_top = conv.pad.top,
          .pad_left = conv.pad.left,
          .in_sample = floats(in),
          .out_sample = floats(out)};
}

/// Returns the convolution of output gradients with turned weights whose result is the input gradient.
WinogradShape turned(const WinogradShape& of) {
  return {.samples = of.samples,
          .channels = of.filters,
          .filters = of.channels,
          .in_h = of.out_h,
          .in_w = of.out_w,
          .out_h = of.in_h,
          .out_w = of.in_w,
          .kernel = of.kernel,
          .pad_top = of.kernel - 1 - of.pad_top,
          .pad_left = of.kernel - 1 - of.pad_left,
          .in_sample = of.out_sample,
          .out_sample = of.in_sample};
}

class WinogradInputGradient : public OnednnInputGradient {
 public:
  WinogradInputGradient(OnednnEngine& engine, const ShardSpec& spec)
      : engine_(engine),
        kernels_(*winograd_kernels(engine.vector_width)),
        groups_(spec.stage.conv.groups),
        shape_(turned(shape_of(spec, spec.batch, engine.vector_width))) {
    const Layout layout = maps_layout(engine.vector_width);
    desc_ = desc_of(input_shape(spec.stage, spec.batch), layout);
    gradient_ = OnednnInlet(desc_of(conv_shape(spec.stage, spec.batch, spec.filters.count), layout));
    // Weights as (group, block of filters, filter, block of channels, channel, place in the kernel).
    const memory::dim width = engine.vector_width;
    const memory::dim filters = shape_.channels / width;
    const memory::dim channels = shape_.filters / width;
    const memory::dim places = memory::dim{shape_.kernel} * shape_.kernel;
    const memory::dim block = width * width * places;
    const memory::dim group = filters * channels * block;
    const memory::dims dims{groups_, filters, width, channels, width, places};
    given_ = memory::desc(dims, memory::data_type::f32,
                          memory::dims{group, channels * block, 1, block, width, width * width});
    taken_weights_ = engine.make(memory::desc(dims, memory::data_type::f32,
                                              memory::dims{group, block, width, filters * block, 1, width * width}));
    engine.scratch(kernels_.convolve_scratch(shape_, engine.threads));
  }

  const memory::desc& desc() const override { return desc_; }
  void take_weights(const memory& weights) override {
    engine_.reorder(memory(given_, engine_.engine, weights.get_data_handle()), taken_weights_);
  }
  void find(const memory& gradient, const memory& input_gradient) override {
    const bool fits = input_gradient.get_desc() == desc_;
    if (!fits && !found_) found_ = engine_.make(desc_);
    const memory& given = gradient_.take(engine_, gradient);
    float* scratch = engine_.scratch(kernels_.convolve_scratch(shape_, engine_.threads));
    for (int group = 0; group < groups_; ++group) {
      const GroupStart start(shape_, group);
      kernels_.convolve(shape_, floats_of(given) + start.input, floats_of(taken_weights_) + start.weights, true, {},
                        floats_of(fits ? input_gradient : found_) + start.output, scratch, engine_.threads);
    }
    if (!fits) engine_.reorder(found_, input_gradient);
  }

 private:
  OnednnEngine& engine_;
  const WinogradKernels& kernels_;
  int groups_;
  WinogradShape shape_;
  memory::desc desc_;
  OnednnInlet gradient_;
  memory::desc given_;    ///< the weights in blocks of channels and filters
  memory taken_weights_;  ///< channels and filters have changed places
  memory found_;
};

/// Sums the output gradients of each filter: rows first, so that few values are added to a large sum.
void find_bias_gradient(const WinogradShape& shape, int width, const memory& gradient, const memory& bias_gradient) {
  const float* from = floats_of(gradient);
  float* to = floats_of(bias_gradient);
  const auto filters = static_cast<int>(count_of(bias_gradient));
  const int blocks = in_blocks(filters, width) / width;
  const std::size_t row = static_cast<std::size_t>(shape.out_w) * static_cast<std::size_t>(width);
#pragma omp parallel for schedule(static)
  for (int block = 0; block < blocks; ++block) {
    std::array<double, 16> sums{};
    for (int sample = 0; sample < shape.samples; ++sample) {
      const std::size_t plane =
          static_cast<std::size_t>(sample) * static_cast<std::size_t>(blocks) + static_cast<std::size_t>(block);
      for (int y = 0; y < shape.out_h; ++y) {
        const float* values =
            from + (plane * static_cast<std::size_t>(shape.out_h) + static_cast<std::size_t>(y)) * row;
        std::array<float, 16> of_row{};
        for (std::size_t x = 0; x < row; x += static_cast<std::size_t>(width)) {
          for (int lane = 0; lane < width; ++lane) of_row[lane] += values[x + static_cast<std::size_t>(lane)];
        }
        for (int lane = 0; lane < width; ++lane) sums[lane] += of_row[lane];
      }
    }
    for (int lane = 0; lane < width && block * width + lane < filters; ++lane) {
      to[block * width + lane] = static_cast<float>(sums[lane]);
    }
  }
}

}  // namespace

bool winograd_pays(const OnednnEngine& engine, const ShardSpec& spec) {
  const Convolution& conv = spec.stage.conv;
  const bool plain = !conv.dilated() && conv.stride_h == 1 && conv.stride_w == 1;
  const bool square = conv.kernel_h == conv.kernel_w && (conv.kernel_h == 3 || conv.kernel_h == 5);
  if (!plain || !square || engine.bf16 || winograd_kernels(engine.vector_width) == nullptr) return false;
  const WinogradShape shape = shape_of(spec, spec.batch / spec.micro_batches, engine.vector_width);
  // The kernels compute on the channels and filters that fill up the last blocks, too. Groups share no blocks.
  const double used = double{1} * spec.stage.channels * spec.filters.count /
                      (double{1} * shape.channels * shape.filters * conv.groups * conv.groups);
  if (conv.groups > 1 && used < 1.0) return false;
  return used * winograd_gain(shape) > kLeastGain;
}

OnednnWinograd::OnednnWinograd(OnednnEngine& engine, const ShardSpec& spec, const Activation* fused)
    : engine_(engine),
      kernels_(*winograd_kernels(engine.vector_width)),
      groups_(spec.stage.conv.groups),
      micro_batch_(shape_of(spec, spec.batch / spec.micro_batches, engine.vector_width)),
      batch_(shape_of(spec, spec.batch, engine.vector_width)),
      output_shape_(conv_shape(spec.stage, micro_batch_.samples, spec.filters.count)),
      fused_(fused != nullptr ? std::optional(*fused) : std::nullopt),
      bias_(static_cast<std::size_t>(micro_batch_.filters) * static_cast<std::size_t>(groups_)) {
  const Layout layout = maps_layout(engine.vector_width);
  input_desc_ = desc_of(input_shape(spec.stage, micro_batch_.samples), layout);
  input_for_filters_ = OnednnInlet(desc_of(input_shape(spec.stage, spec.batch), layout));
  output_desc_ = desc_of(output_shape_, layout);
  output_gradient_ = OnednnInlet(desc_of(conv_shape(spec.stage, spec.batch, spec.filters.count), layout));
  weights_desc_ =
      convoy::weights_desc(spec.stage, spec.filters.count, weights_layout(engine.vector_width, spec.stage.conv.groups));
  // oneDNN's tanh is faster than the host's; its sigmoid by itself may turn NaN into 0.
  if (fused_ && fused_->kind == Activation::Kind::tanh) {
    tanh_ = dnnl::eltwise_forward(
        onednn::describe_eltwise(engine.engine, dnnl::algorithm::eltwise_tanh, output_desc_, 0.0F));
  }
  engine.scratch(std::max(kernels_.convolve_scratch(micro_batch_, engine.threads),
                          kernels_.gradient_scratch(batch_, engine.threads)));
}

void OnednnWinograd::forward(const memory& input, const memory& weights, const memory& bias, const memory& output) {
  WinogradEpilogue epilogue;
  if (bias) {
    std::copy_n(floats_of(bias), count_of(bias), bias_.begin());
    epilogue.bias = bias_.data();
  }
  const bool relu = fused_ && (fused_->kind == Activation::Kind::relu || fused_->kind == Activation::Kind::leaky_relu);
  if (relu) {
    epilogue.relu = true;
    epilogue.slope = fused_->kind == Activation::Kind::relu ? 0.0F : fused_->alpha;
  }
  float* scratch = engine_.scratch(kernels_.convolve_scratch(micro_batch_, engine_.threads));
  for (int group = 0; group < groups_; ++group) {
    const GroupStart start(micro_batch_, group);
    WinogradEpilogue of_group = epilogue;
    if (bias) of_group.bias += start.filter;
    kernels_.convolve(micro_batch_, floats_of(input) + start.input, floats_of(weights) + start.weights, false, of_group,
                      floats_of(output) + start.output, scratch, engine_.threads);
  }
  if (!fused_ || relu) return;
  if (!tanh_) return activate_in_place(*fused_, output, output_shape_);
  engine_.run(tanh_, {{DNNL_ARG_SRC, output}, {DNNL_ARG_DST, output}});
}

void OnednnWinograd::find_filter_gradient(const memory& input, const memory& gradient, const memory& weights_gradient,
                                          const memory& bias_gradient) {
  const memory& inputs = input_for_filters_.take(engine_, input);
  const memory& gradients = output_gradient_.take(engine_, gradient);
  float* scratch = engine_.scratch(kernels_.gradient_scratch(batch_, engine_.threads));
  for (int group = 0; group < groups_; ++group) {
    const GroupStart start(batch_, group);
    kernels_.find_gradient(batch_, floats_of(inputs) + start.input, floats_of(gradients) + start.output,
                           floats_of(weights_gradient) + start.weights, scratch, engine_.threads);
  }
  if (bias_gradient) find_bias_gradient(batch_, kernels_.width, gradients, bias_gradient);
}

std::unique_ptr<OnednnInputGradient> make_winograd_input_gradient(OnednnEngine& engine, const ShardSpec& micro_batch) {
  return std::make_unique<WinogradInputGradient>(engine, micro_batch);
}

}  // namespace convoy
