#include "nets/file/read_layer.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "nets/file/layer_types.hpp"
#include "nets/file/rates.hpp"

namespace convoy {
namespace {

constexpr long kMostValues = 1L << 28;

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

/// Computes the padding of one direction that makes the output's extent ceil(extent / stride). If the total is odd, the
/// larger part comes after the maps.
void pad_same(int extent, int kernel, int stride, int& before, int& after) {
  const int outputs = (extent + stride - 1) / stride;
  const int total = std::max((outputs - 1) * stride + kernel - extent, 0);
  before = total / 2;
  after = total - before;
}

/// The rows and columns under a window.
template <class Window>
std::array<int, 2> reach_of(const Window& window) {
  return {window.reach_h(), window.reach_w()};
}

template <class Window>
void resolve(Window& window, bool same, const FeatureShape& input, const Fields& fields) {
  const auto [rows, columns] = reach_of(window);
  if (same) {
    pad_same(input.height, rows, window.stride_h, window.pad.top, window.pad.bottom);
    pad_same(input.width, columns, window.stride_w, window.pad.left, window.pad.right);
  }
  const Padding& pad = window.pad;
  const bool dilated = rows > window.kernel_h || columns > window.kernel_w;
  const std::string kernel = fmt::format("the {} {}x{}", dilated ? "dilated kernel of" : "kernel", rows, columns);
  if (std::max(pad.top, pad.bottom) >= rows || std::max(pad.left, pad.right) >= columns) {
    fields.fail(
        fmt::format("padding {} {} {} {} is not smaller than {}", pad.top, pad.left, pad.bottom, pad.right, kernel));
  }
  if (window_output(input.height, rows, window.stride_h, pad.top, pad.bottom) < 1 ||
      window_output(input.width, columns, window.stride_w, pad.left, pad.right) < 1) {
    fields.fail(fmt::format("{} does not fit into its input of {}x{}; make it smaller, add pad, or pool less before it",
                            kernel, input.height, input.width));
  }
}

/// Throws Error if the padding of a pooling holds a window with all its elements.
void expect_elements(const Pooling& pool, const FeatureShape& input, const Fields& fields) {
  if (!has_empty_window(pool, input.height, input.width)) return;
  fields.fail("dilation",
              fmt::format("is [{}, {}], so that a window has no element of its input of {}x{}; make dilation "
                          "or pad smaller",
                          pool.dilation_h, pool.dilation_w, input.height, input.width));
}

/// Checks what a transposed convolution cuts off and adds.
void resolve(const TransposedConvolution& what, const FeatureShape& input, const Fields& fields) {
  const Convolution& conv = what.conv;
  const Padding& pad = conv.pad;
  if (std::max(pad.top, pad.bottom) >= conv.reach_h() || std::max(pad.left, pad.right) >= conv.reach_w()) {
    fields.fail("pad", fmt::format("cuts off {} {} {} {}; expected less than the kernel, {}x{}", pad.top, pad.left,
                                   pad.bottom, pad.right, conv.reach_h(), conv.reach_w()));
  }
  if (what.more_rows >= std::max(conv.stride_h, conv.dilation_h) ||
      what.more_columns >= std::max(conv.stride_w, conv.dilation_w)) {
    fields.fail("output_pad", fmt::format("is [{}, {}]; expected less than the stride or the dilation", what.more_rows,
                                          what.more_columns));
  }
  const Resizing spread = spread_for(what, input.height, input.width);
  const Convolution of_spread = convolution_of(what);
  const long values = static_cast<long>(input.channels) * spread.rows.extent * spread.columns.extent;
  if (values > kMostValues) {
    fields.fail("stride",
                fmt::format("spreads maps of {}x{}x{} (channels, rows, columns) over {} values; the limit is {}",
                            input.channels, input.height, input.width, values, kMostValues));
  }
  if (window_output(spread.rows.extent, conv.reach_h(), 1, of_spread.pad.top, of_spread.pad.bottom) < 1 ||
      window_output(spread.columns.extent, conv.reach_w(), 1, of_spread.pad.left, of_spread.pad.right) < 1) {
    fields.fail("pad", fmt::format("cuts off all that a kernel of {}x{} makes of {}x{}; make it smaller",
                                   conv.reach_h(), conv.reach_w(), input.height, input.width));
  }
}

void resolve(Resizing::Axis& axis, int extent, const Fields& fields) {
  constexpr double kLeast = 1e-6;  // more than rounding takes from an extent times a factor such as 1.1
  if (axis.extent == kExtentOfStep) axis.extent = static_cast<int>(std::floor(extent / axis.step + kLeast));
  if (axis.extent < 1)
    fields.fail("factor", fmt::format("{} leaves nothing of {} rows or columns", 1.0 / axis.step, extent));
  if (axis.step == kStepOfExtents) axis.step = static_cast<double>(extent) / axis.extent;
  if (axis.step == kStepOfCorners) axis.step = axis.extent > 1 ? (extent - 1.0) / (axis.extent - 1.0) : 0.0;
  if (axis.start == kStartOfCentres) axis.start = 0.5 * axis.step - 0.5;
}

template <class Window>
FeatureShape windows(int channels, const FeatureShape& in, const Window& window) {
  const auto [rows, columns] = reach_of(window);
  return {channels, window_output(in.height, rows, window.stride_h, window.pad.top, window.pad.bottom),
          window_output(in.width, columns, window.stride_w, window.pad.left, window.pad.right)};
}

FeatureShape output_of(const LayerSpec& spec, const FeatureShape& in) {
  if (const auto* conv = std::get_if<Convolution>(&spec)) {
    return windows(conv->filters, in, *conv);
  }
  if (const auto* transposed = std::get_if<TransposedConvolution>(&spec)) {
    const Resizing spread = spread_for(*transposed, in.height, in.width);
    return windows(transposed->conv.filters, {in.channels, spread.rows.extent, spread.columns.extent},
                   convolution_of(*transposed));
  }
  if (const auto* by = std::get_if<Resizing>(&spec)) return {in.channels, by->rows.extent, by->columns.extent};
  if (const auto* pool = std::get_if<Pooling>(&spec)) {
    return windows(in.channels, in, *pool);
  }
  if (const auto* dense = std::get_if<Dense>(&spec)) return {dense->units, 1, 1};
  if (std::holds_alternative<Flatten>(spec)) return {in.size(), 1, 1};
  if (const auto* pad = std::get_if<PadChannels>(&spec)) {
    return {in.channels + pad->before + pad->after, in.height, in.width};
  }
  if (const auto* slice = std::get_if<SliceChannels>(&spec)) return {slice->count, in.height, in.width};
  if (const auto* by = std::get_if<Upsampling>(&spec)) {
    return {in.channels, in.height * by->rows, in.width * by->columns};
  }
  if (std::holds_alternative<Concat>(spec) || std::holds_alternative<Sum>(spec) ||
      std::holds_alternative<Product>(spec) || std::holds_alternative<ShuffleChannels>(spec)) {
    return in;
  }
  if (std::holds_alternative<GlobalAveragePool>(spec)) return {in.channels, 1, 1};
  if (std::holds_alternative<Activation>(spec) || std::holds_alternative<Dropout>(spec) ||
      std::holds_alternative<BatchNorm>(spec) || std::holds_alternative<ResponseNorm>(spec) ||
      std::holds_alternative<PRelu>(spec) || std::holds_alternative<Normalisation>(spec)) {
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
  const bool draws = convolution_in(written.layer) != nullptr || std::holds_alternative<Dense>(spec);
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
  const auto* by = std::get_if<Upsampling>(&spec);
  if (by != nullptr && static_cast<long>(input.size()) * by->rows * by->columns > kMostValues) {
    fields.fail("factor",
                fmt::format("makes maps of {}x{}x{} (channels, rows, columns) {}x{} times as large; the limit is "
                            "{} values",
                            input.channels, input.height, input.width, by->rows, by->columns, kMostValues));
  }
  const auto* norm = std::get_if<Normalisation>(&spec);
  if (norm != nullptr && input.channels % norm->norm.groups != 0) {
    fields.fail("groups", fmt::format("is {}; expected a number that divides its {} input channels", norm->norm.groups,
                                      input.channels));
  }
}

}  // namespace

void connect(WrittenLayer& written, const std::vector<FeatureShape>& inputs) {
  const FeatureShape input = together(written, inputs);
  LayerSpec& spec = written.layer.spec;
  if (auto* conv = std::get_if<Convolution>(&spec)) resolve(*conv, written.same, input, written.fields);
  if (auto* pool = std::get_if<Pooling>(&spec)) {
    resolve(*pool, written.same, input, written.fields);
    expect_elements(*pool, input, written.fields);
  }
  if (const auto* transposed = std::get_if<TransposedConvolution>(&spec)) {
    resolve(*transposed, input, written.fields);
  }
  if (auto* by = std::get_if<Resizing>(&spec)) {
    resolve(by->rows, input.height, written.fields);
    resolve(by->columns, input.width, written.fields);
  }
  const Convolution* conv = convolution_in(written.layer);
  if (conv != nullptr) expect_equal_groups(*conv, input, written.fields);
  auto* norm = std::get_if<Normalisation>(&spec);
  if (norm != nullptr && norm->norm.groups == kGroupOfEachChannel) norm->norm.groups = input.channels;
  expect_channels(spec, input, written.fields);
  const FeatureShape output = output_of(spec, input);
  const long values = static_cast<long>(output.channels) * output.height * output.width;
  long weights = 0;
  if (conv != nullptr) {
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
