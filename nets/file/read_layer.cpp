#include "nets/file/read_layer.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "nets/file/rates.hpp"

namespace convoy {
namespace {

constexpr int kMostUnits = 1 << 20;
constexpr int kLargestKernel = 1024;
constexpr long kMostValues = 1L << 28;

struct LayerType {
  const char* name;
  LayerSpec (*read)(Fields& fields, bool& same);
};

void set_pair(Fields& fields, const char* field, int& rows, int& columns) {
  const auto values = fields.pair(field, 1, kLargestKernel);
  rows = values[0];
  columns = values[1];
}

/// Reads padding: a number, [rows, columns], [top, left, bottom, right], `valid` or `same`.
Padding read_pad(Fields& fields, bool& same) {
  if (!fields.has("pad")) {
    return {};
  }
  const YAML::Node node = fields.node("pad");
  if (node.IsScalar() && node.Scalar() == "same") {
    same = true;
    return {};
  }
  if (node.IsScalar() && node.Scalar() == "valid") return {};
  if (node.IsSequence() && node.size() == 4) {
    const std::vector<int> sides = fields.integers("pad", 4, 0, kLargestKernel);
    return {sides[0], sides[1], sides[2], sides[3]};
  }
  const auto [rows, columns] = fields.pair("pad", 0, kLargestKernel);
  return {rows, columns, rows, columns};
}

LayerSpec read_conv(Fields& fields, bool& same) {
  Convolution conv;
  conv.filters = fields.integer("filters", 1, kMostUnits);
  set_pair(fields, "kernel", conv.kernel_h, conv.kernel_w);
  if (fields.has("stride")) set_pair(fields, "stride", conv.stride_h, conv.stride_w);
  conv.pad = read_pad(fields, same);
  if (fields.has("bias")) conv.bias = fields.boolean("bias");
  if (fields.has("groups")) conv.groups = fields.integer("groups", 1, kMostUnits);
  return conv;
}

template <PoolKind kind>
LayerSpec read_pool(Fields& fields, bool& same) {
  Pooling pool{.kind = kind};
  set_pair(fields, "kernel", pool.kernel_h, pool.kernel_w);
  pool.stride_h = pool.kernel_h;
  pool.stride_w = pool.kernel_w;
  if (fields.has("stride")) set_pair(fields, "stride", pool.stride_h, pool.stride_w);
  pool.pad = read_pad(fields, same);
  if (kind == PoolKind::average && fields.has("count_padding") && fields.boolean("count_padding")) {
    pool.kind = PoolKind::average_with_padding;
  }
  return pool;
}

template <Activation::Kind kind>
LayerSpec read_activation(Fields&, bool&) {
  return Activation{kind};
}

float number_or(Fields& fields, const char* field, double least, double most, double otherwise) {
  return static_cast<float>(fields.has(field) ? fields.number(field, least, most) : otherwise);
}

LayerSpec read_leaky_relu(Fields& fields, bool&) {
  return Activation{Activation::Kind::leaky_relu, number_or(fields, "slope", 0.0, 100.0, 0.01)};
}

/// Reads the limits, of which one may be missing.
LayerSpec read_clip(Fields& fields, bool&) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (!fields.has("low") && !fields.has("high")) fields.fail("it has no limit; expected low, high, or both");
  const float low = number_or(fields, "low", -1e6, 1e6, -kNone);
  const float high = number_or(fields, "high", -1e6, 1e6, kNone);
  if (!(low < high)) fields.fail("high", fmt::format("is {}, but low is {}; expected a larger number", high, low));
  return Activation{Activation::Kind::clip, low, high};
}

LayerSpec read_relu6(Fields&, bool&) { return Activation{Activation::Kind::clip, 0.0F, 6.0F}; }

LayerSpec read_hard_sigmoid(Fields& fields, bool&) {
  const float alpha = number_or(fields, "alpha", -100.0, 100.0, 1.0 / 6.0);
  return Activation{Activation::Kind::hard_sigmoid, alpha, number_or(fields, "beta", -100.0, 100.0, 0.5)};
}

LayerSpec read_elu(Fields& fields, bool&) {
  return Activation{Activation::Kind::elu, number_or(fields, "alpha", 0.0, 100.0, 1.0)};
}

LayerSpec read_batch_norm(Fields& fields, bool&) {
  BatchNorm norm{.name = fields.word("name")};
  if (fields.has("epsilon")) norm.epsilon = static_cast<float>(fields.number("epsilon", 0.0, 1.0));
  if (fields.has("momentum")) norm.momentum = static_cast<float>(fields.number("momentum", 0.0, 1.0));
  return norm;
}

LayerSpec read_dense(Fields& fields, bool&) { return Dense{fields.integer("units", 1, kMostUnits)}; }

LayerSpec read_dropout(Fields& fields, bool&) {
  const double rate = fields.number("rate", 0.0, 1.0);
  if (rate >= 1.0) fields.fail("rate", "is 1, which would drop everything; expected less than 1");
  return Dropout{static_cast<float>(rate), 0};
}

float read_loss_weight(Fields& fields) {
  return fields.has("weight") ? static_cast<float>(fields.number("weight", 0.0, 1e3)) : 1.0F;
}

LayerSpec read_squared_error(Fields& fields, bool&) { return SquaredError{read_loss_weight(fields)}; }

LayerSpec read_cross_entropy(Fields& fields, bool&) {
  SoftmaxCrossEntropy loss{.weight = read_loss_weight(fields)};
  if (fields.has("label_smoothing"))
    loss.label_smoothing = static_cast<float>(fields.number("label_smoothing", 0.0, 0.9));
  if (fields.has("class_weights")) {
    const YAML::Node list = fields.node("class_weights");
    if (!list.IsSequence() || list.size() > kMostUnits)
      fields.fail("class_weights", "is no list of a number for each class");
    for (const double weight : fields.numbers("class_weights", list.size(), 1e-6, 1e6)) {
      loss.class_weights.push_back(static_cast<float>(weight));
    }
  }
  return loss;
}

/// Reads `he`, `xavier` or {constant: VALUE}.
Initialisation read_init(Fields& fields) {
  if (fields.node("init").IsMap()) {
    Fields map = fields.map("init");
    const Initialisation constant{Initialisation::Kind::constant, map.number("constant", -1e6, 1e6)};
    map.finish();
    return constant;
  }
  const std::string name = fields.word("init");
  if (name == "he") return {Initialisation::Kind::he};
  if (name == "xavier") return {Initialisation::Kind::xavier};
  fields.fail("init", fmt::format("is '{}'; expected he, xavier or {{constant: VALUE}}", name));
}

LayerSpec read_response_norm(Fields& fields, bool&) {
  ResponseNorm norm;
  if (fields.has("size")) norm.size = fields.integer("size", 1, 4096);
  if (fields.has("alpha")) norm.alpha = static_cast<float>(fields.number("alpha", 0.0, 1e6));
  if (fields.has("beta")) norm.beta = static_cast<float>(fields.number("beta", 0.0, 100.0));
  if (fields.has("k")) norm.k = static_cast<float>(fields.number("k", 1e-6, 1e6));
  return norm;
}

template <class T>
LayerSpec read_plain(Fields&, bool&) {
  return T{};
}

LayerSpec read_pad_channels(Fields& fields, bool&) {
  PadChannels pad;
  if (fields.has("before")) pad.before = fields.integer("before", 0, kMostUnits);
  if (fields.has("after")) pad.after = fields.integer("after", 0, kMostUnits);
  if (pad.before + pad.after == 0) fields.fail("it adds no channels; expected before, after, or both");
  return pad;
}

LayerSpec read_slice_channels(Fields& fields, bool&) {
  SliceChannels slice;
  if (fields.has("first")) slice.first = fields.integer("first", 0, kMostUnits);
  slice.count = fields.integer("count", 1, kMostUnits);
  return slice;
}

LayerSpec read_shuffle_channels(Fields& fields, bool&) {
  return ShuffleChannels{fields.integer("groups", 1, kMostUnits)};
}

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> types = {
      {"conv", read_conv},
      {"relu", read_activation<Activation::Kind::relu>},
      {"sigmoid", read_activation<Activation::Kind::sigmoid>},
      {"tanh", read_activation<Activation::Kind::tanh>},
      {"leaky_relu", read_leaky_relu},
      {"clip", read_clip},
      {"relu6", read_relu6},
      {"hard_sigmoid", read_hard_sigmoid},
      {"elu", read_elu},
      {"selu", read_activation<Activation::Kind::selu>},
      {"softplus", read_activation<Activation::Kind::softplus>},
      {"silu", read_activation<Activation::Kind::silu>},
      {"hard_swish", read_activation<Activation::Kind::hard_swish>},
      {"gelu", read_activation<Activation::Kind::gelu>},
      {"batch_norm", read_batch_norm},
      {"response_norm", read_response_norm},
      {"max_pool", read_pool<PoolKind::max>},
      {"average_pool", read_pool<PoolKind::average>},
      {"concat", read_plain<Concat>},
      {"add", read_plain<Sum>},
      {"multiply", read_plain<Product>},
      {"pad_channels", read_pad_channels},
      {"slice_channels", read_slice_channels},
      {"shuffle_channels", read_shuffle_channels},
      {"global_average_pool", read_plain<GlobalAveragePool>},
      {"dense", read_dense},
      {"flatten", read_plain<Flatten>},
      {"dropout", read_dropout},
      {"softmax_cross_entropy", read_cross_entropy},
      {"squared_error", read_squared_error},
  };
  return types;
}

/// Computes the padding of one direction that makes the output's extent ceil(extent / stride). If the total is odd, the
/// larger part comes after the maps.
void pad_same(int extent, int kernel, int stride, int& before, int& after) {
  const int outputs = (extent + stride - 1) / stride;
  const int total = std::max((outputs - 1) * stride + kernel - extent, 0);
  before = total / 2;
  after = total - before;
}

template <class Window>
void resolve(Window& window, bool same, const FeatureShape& input, const Fields& fields) {
  if (same) {
    pad_same(input.height, window.kernel_h, window.stride_h, window.pad.top, window.pad.bottom);
    pad_same(input.width, window.kernel_w, window.stride_w, window.pad.left, window.pad.right);
  }
  const Padding& pad = window.pad;
  if (std::max(pad.top, pad.bottom) >= window.kernel_h || std::max(pad.left, pad.right) >= window.kernel_w) {
    fields.fail(fmt::format("padding {} {} {} {} is not smaller than the kernel {}x{}", pad.top, pad.left, pad.bottom,
                            pad.right, window.kernel_h, window.kernel_w));
  }
  if (window_output(input.height, window.kernel_h, window.stride_h, pad.top, pad.bottom) < 1 ||
      window_output(input.width, window.kernel_w, window.stride_w, pad.left, pad.right) < 1) {
    fields.fail(
        fmt::format("the kernel {}x{} does not fit into its input of {}x{}; make it smaller, add pad, or pool less "
                    "before it",
                    window.kernel_h, window.kernel_w, input.height, input.width));
  }
}

FeatureShape windows(int channels, const FeatureShape& in, int kernel_h, int kernel_w, int stride_h, int stride_w,
                     const Padding& pad) {
  return {channels, window_output(in.height, kernel_h, stride_h, pad.top, pad.bottom),
          window_output(in.width, kernel_w, stride_w, pad.left, pad.right)};
}

FeatureShape output_of(const LayerSpec& spec, const FeatureShape& in) {
  if (const auto* conv = std::get_if<Convolution>(&spec)) {
    return windows(conv->filters, in, conv->kernel_h, conv->kernel_w, conv->stride_h, conv->stride_w, conv->pad);
  }
  if (const auto* pool = std::get_if<Pooling>(&spec)) {
    return windows(in.channels, in, pool->kernel_h, pool->kernel_w, pool->stride_h, pool->stride_w, pool->pad);
  }
  if (const auto* dense = std::get_if<Dense>(&spec)) return {dense->units, 1, 1};
  if (std::holds_alternative<Flatten>(spec)) return {in.size(), 1, 1};
  if (const auto* pad = std::get_if<PadChannels>(&spec)) {
    return {in.channels + pad->before + pad->after, in.height, in.width};
  }
  if (const auto* slice = std::get_if<SliceChannels>(&spec)) return {slice->count, in.height, in.width};
  if (std::holds_alternative<Concat>(spec) || std::holds_alternative<Sum>(spec) ||
      std::holds_alternative<Product>(spec) || std::holds_alternative<ShuffleChannels>(spec)) {
    return in;
  }
  if (std::holds_alternative<GlobalAveragePool>(spec)) return {in.channels, 1, 1};
  if (std::holds_alternative<Activation>(spec) || std::holds_alternative<Dropout>(spec) ||
      std::holds_alternative<BatchNorm>(spec) || std::holds_alternative<ResponseNorm>(spec)) {
    return in;
  }
  return {1, 1, 1};
}

}  // namespace

WrittenLayer read_layer(const std::string& file, const YAML::Node& node, std::size_t number, const Applied& applied) {
  Fields unnamed(file, node, fmt::format("layer number {}", number + 1), "", applied);
  const std::string name = unnamed.word("name");
  WrittenLayer written{
      .layer = {}, .from = {}, .same = false, .fields = Fields(file, node, "layer " + name, name, applied)};
  Fields& fields = written.fields;
  fields.word("name");
  const std::string type = fields.word("type");
  const auto& types = layer_types();
  const auto found = std::find_if(types.begin(), types.end(), [&](const LayerType& t) { return type == t.name; });
  if (found == types.end()) {
    std::vector<std::string> known;
    for (const LayerType& t : types) known.emplace_back(t.name);
    fields.fail("type", fmt::format("is '{}', which is unknown; did you mean {}? Known: {}", type, nearest(type, known),
                                    fmt::join(known, ", ")));
  }
  if (fields.has("from")) written.from = fields.words("from");
  written.layer.name = name;
  written.layer.line = fields.line();
  written.layer.spec = found->read(fields, written.same);
  const LayerSpec& spec = written.layer.spec;
  const bool draws = std::holds_alternative<Convolution>(spec) || std::holds_alternative<Dense>(spec);
  if (draws && fields.has("init")) written.layer.init = read_init(fields);
  read_rate(written);
  fields.finish();
  return written;
}

namespace {

/// The shape of a product: that of the first input with maps of more than one element, if there is one.
FeatureShape product_of(const WrittenLayer& written, const std::vector<FeatureShape>& inputs) {
  const auto is_large = [](const FeatureShape& shape) { return shape.height * shape.width > 1; };
  const auto found = std::ranges::find_if(inputs, is_large);
  const std::size_t large = found == inputs.end() ? 0 : static_cast<std::size_t>(found - inputs.begin());
  const FeatureShape& all = inputs[large];
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const FeatureShape& other = inputs[i];
    if (other == all || other == FeatureShape{all.channels, 1, 1}) continue;
    written.fields.fail(
        fmt::format("{} is {}x{}x{} (channels, rows, columns), but {} is {}x{}x{}; expected the same, or {}x1x1, which "
                    "multiplies whole maps",
                    written.from[large], all.channels, all.height, all.width, written.from[i], other.channels,
                    other.height, other.width, all.channels));
  }
  return all;
}

/// The shape of a layer's inputs together: concatenated, added for an `add` layer, or multiplied.
FeatureShape together(const WrittenLayer& written, const std::vector<FeatureShape>& inputs) {
  if (std::holds_alternative<Product>(written.layer.spec)) return product_of(written, inputs);
  FeatureShape all = inputs[0];
  const bool added = std::holds_alternative<Sum>(written.layer.spec);
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const FeatureShape& other = inputs[i];
    if (other.height != all.height || other.width != all.width || (added && other.channels != all.channels)) {
      written.fields.fail(
          fmt::format("{} is {}x{}x{} (channels, rows, columns), but {} is {}x{}x{}; expected the same{}",
                      written.from[0], inputs[0].channels, inputs[0].height, inputs[0].width, written.from[i],
                      other.channels, other.height, other.width, added ? "" : " rows and columns"));
    }
    if (!added) all.channels += other.channels;
  }
  return all;
}

void expect_equal_groups(const Convolution& conv, const FeatureShape& input, const Fields& fields) {
  if (input.channels % conv.groups == 0 && conv.filters % conv.groups == 0) return;
  fields.fail("groups", fmt::format("is {}; expected a number that divides its {} input channels and {} filters",
                                    conv.groups, input.channels, conv.filters));
}

void expect_channels(const LayerSpec& spec, const FeatureShape& input, const Fields& fields) {
  const auto* slice = std::get_if<SliceChannels>(&spec);
  if (slice != nullptr && slice->count > input.channels - slice->first) {
    fields.fail(fmt::format("it takes channels {} to {}, but its input has {}, numbered from 0", slice->first,
                            slice->first + slice->count - 1, input.channels));
  }
  const auto* shuffle = std::get_if<ShuffleChannels>(&spec);
  if (shuffle != nullptr && input.channels % shuffle->groups != 0) {
    fields.fail("groups", fmt::format("is {}; expected a number that divides its {} input channels", shuffle->groups,
                                      input.channels));
  }
}

}  // namespace

void connect(WrittenLayer& written, const std::vector<FeatureShape>& inputs) {
  const FeatureShape input = together(written, inputs);
  LayerSpec& spec = written.layer.spec;
  if (auto* conv = std::get_if<Convolution>(&spec)) resolve(*conv, written.same, input, written.fields);
  if (auto* pool = std::get_if<Pooling>(&spec)) resolve(*pool, written.same, input, written.fields);
  if (const auto* conv = std::get_if<Convolution>(&spec)) expect_equal_groups(*conv, input, written.fields);
  expect_channels(spec, input, written.fields);
  const FeatureShape output = output_of(spec, input);
  const long values = static_cast<long>(output.channels) * output.height * output.width;
  long weights = 0;
  if (const auto* conv = std::get_if<Convolution>(&spec)) {
    weights = static_cast<long>(conv->filters) * (input.channels / conv->groups) * conv->kernel_h * conv->kernel_w;
  }
  if (const auto* dense = std::get_if<Dense>(&spec)) weights = static_cast<long>(dense->units) * input.size();
  if (values > kMostValues || weights > 4 * kMostValues) {
    written.fields.fail(fmt::format("it has {} outputs for each sample and {} weights; the limits are {} and {}",
                                    values, weights, kMostValues, 4 * kMostValues));
  }
  written.layer.output = output;
}

}  // namespace convoy
