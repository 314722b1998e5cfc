#include "nets/onnx/builder.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "core/error.hpp"

namespace convoy::onnx_file {

namespace {

/// Makes a valid layer name: letters, digits, '_' and '-', beginning with a letter. Of a long name, the end is kept.
std::string word_of(const std::string& name, const std::string& otherwise) {
  constexpr std::size_t kMost = 48;
  std::string word;
  for (const char letter : name.substr(name.size() - std::min(kMost, name.size()))) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-';
    word += plain ? letter : '_';
  }
  if (word.empty() || std::isalpha(static_cast<unsigned char>(word[0])) == 0) word = otherwise + "_" + word;
  return word;
}

}  // namespace

Builder::Builder(const std::string& name) : name_(word_of(name, "net")) {}

int Value::size() const {
  long product = 1;
  for (const int extent : dims) product = std::min(product * extent, 1L << 30);
  return static_cast<int>(product);
}

Value Value::flat() const {
  Value list = *this;
  if (dims.size() == 1) return list;
  list.dims = {size()};
  if (channels_last && !is_point()) list.transposed_from = dims;
  list.channels_last = false;
  list.bare = bare && is_point();  // a constant for each element is none for each channel
  return list;
}

std::size_t Value::place(std::size_t i) const {
  if (transposed_from.empty()) return i;
  const auto channels = static_cast<std::size_t>(transposed_from[2]);
  const std::size_t map = static_cast<std::size_t>(transposed_from[0]) * static_cast<std::size_t>(transposed_from[1]);
  return i % channels * map + i / channels;
}

void Builder::settle_input(const std::vector<int>& dims) {
  if (input_settled()) return;
  input_ = {dims[0], dims.size() > 1 ? dims[1] : 1, dims.size() > 2 ? dims[2] : 1};
}

std::string Builder::unique(const std::string& name) {
  const std::string word = word_of(name, "layer");
  std::string free = word;
  for (int number = 2; !names_.insert(free).second; ++number) free = fmt::format("{}_{}", word, number);
  return free;
}

Value Builder::add(const std::string& name, const std::string& fields, const std::vector<Value>& from,
                   const FeatureShape& maps) {
  std::string sources;
  for (const Value& each : from) sources += (sources.empty() ? "" : ", ") + each.layer;
  lines_.push_back({unique(name), sources, fields});
  return {.layer = lines_.back().name,
          .dims = {maps.channels, maps.height, maps.width},
          .maps = maps,
          .transposed_from = {}};
}

Value Builder::plain(const std::string& name, const std::string& fields, const Value& from) {
  Value made = add(name, fields, {from}, from.maps);
  made.dims = from.dims;
  made.channels_last = from.channels_last;
  made.transposed_from = from.transposed_from;
  return made;
}

Value Builder::shaped(const std::string& name, const std::string& fields, const Value& from, const FeatureShape& maps) {
  return add(name, fields, {from}, maps);
}

Value Builder::slice(const std::string& name, const Value& from, FilterRange channels) {
  if (channels == FilterRange{0, from.maps.channels}) return from;
  Value made = shaped(name, fmt::format("slice_channels, first: {}, count: {}", channels.first, channels.count), from,
                      {channels.count, from.maps.height, from.maps.width});
  made.positive = from.positive;
  return made;
}

Value Builder::joined(const std::string& name, const std::string& fields, const std::vector<Value>& from,
                      int channels) {
  Value made = add(name, fields, from, {channels, from[0].maps.height, from[0].maps.width});
  if (channels != from[0].maps.channels) return made;
  made.dims = from[0].dims;
  made.channels_last = from[0].channels_last;
  made.transposed_from = from[0].transposed_from;
  return made;
}

Value Builder::window(const std::string& name, const std::string& type, const Value& from, const Pooling& pool) {
  const Shape made = pooled_shape(pool, {1, from.maps.channels, from.maps.height, from.maps.width});
  std::string fields =
      fmt::format("{}, kernel: [{}, {}], stride: [{}, {}], pad: [{}, {}, {}, {}]", type, pool.kernel_h, pool.kernel_w,
                  pool.stride_h, pool.stride_w, pool.pad.top, pool.pad.left, pool.pad.bottom, pool.pad.right);
  if (pool.dilated()) fields += fmt::format(", dilation: [{}, {}]", pool.dilation_h, pool.dilation_w);
  return add(name, fields, {from}, {made.c, made.h, made.w});
}

Value Builder::conv(const std::string& name, const Value& from, const std::vector<int>& extents, int groups,
                    const std::vector<int>& strides, const std::vector<int>& pads, const std::vector<int>& dilations,
                    std::vector<float> weights, std::vector<float> bias) {
  const Convolution conv{.filters = extents[0],
                         .kernel_h = extents[2],
                         .kernel_w = extents[3],
                         .dilation_h = dilations[0],
                         .dilation_w = dilations[1]};
  std::string fields =
      fmt::format("conv, filters: {}, kernel: [{}, {}], stride: [{}, {}], pad: [{}, {}, {}, {}]", conv.filters,
                  conv.kernel_h, conv.kernel_w, strides[0], strides[1], pads[0], pads[1], pads[2], pads[3]);
  if (conv.dilated()) fields += fmt::format(", dilation: [{}, {}]", dilations[0], dilations[1]);
  if (groups > 1) fields += fmt::format(", groups: {}", groups);
  Value made = add(name, fields, {from},
                   {conv.filters, window_output(from.maps.height, conv.reach_h(), strides[0], pads[0], pads[2]),
                    window_output(from.maps.width, conv.reach_w(), strides[1], pads[1], pads[3])});
  const bool has_bias = !bias.empty();
  bias.resize(static_cast<std::size_t>(extents[0]), 0.0F);
  parameters_[made.layer] = {.weights = {made.layer + ".weight", {extents.begin(), extents.end()}, std::move(weights)},
                             .bias = std::move(bias),
                             .has_bias = has_bias,
                             .others = {}};
  return made;
}

Value Builder::transposed(const std::string& name, const Value& from, const TransposedConvolution& what,
                          std::vector<float> weights, std::vector<float> bias) {
  const Convolution& conv = what.conv;
  const Padding& pad = conv.pad;
  std::string fields = fmt::format(
      "conv_transpose, filters: {}, kernel: [{}, {}], stride: [{}, {}], pad: [{}, {}, {}, {}]", conv.filters,
      conv.kernel_h, conv.kernel_w, conv.stride_h, conv.stride_w, pad.top, pad.left, pad.bottom, pad.right);
  if (conv.dilated()) fields += fmt::format(", dilation: [{}, {}]", conv.dilation_h, conv.dilation_w);
  if (conv.groups > 1) fields += fmt::format(", groups: {}", conv.groups);
  if (what.more_rows + what.more_columns > 0)
    fields += fmt::format(", output_pad: [{}, {}]", what.more_rows, what.more_columns);
  const Resizing spread = spread_for(what, from.maps.height, from.maps.width);
  const Convolution of_spread = convolution_of(what);
  const Padding& around = of_spread.pad;
  Value made = add(name, fields, {from},
                   {conv.filters, window_output(spread.rows.extent, conv.reach_h(), 1, around.top, around.bottom),
                    window_output(spread.columns.extent, conv.reach_w(), 1, around.left, around.right)});
  const bool has_bias = !bias.empty();
  bias.resize(static_cast<std::size_t>(conv.filters), 0.0F);
  parameters_[made.layer] = {.weights = {made.layer + ".weight",
                                         {conv.filters, from.maps.channels / conv.groups, conv.kernel_h, conv.kernel_w},
                                         std::move(weights)},
                             .bias = std::move(bias),
                             .has_bias = has_bias,
                             .others = {}};
  return made;
}

Value Builder::batch_norm(const std::string& name, const std::string& fields, const Value& from,
                          const std::vector<std::vector<float>>& lists) {
  Value made = plain(name, fields, from);
  const std::vector<std::int64_t> dims{from.maps.channels};
  parameters_[made.layer] = {
      .weights = {made.layer + ".weight", dims, lists[0]},
      .bias = lists[1],
      .others = {{made.layer + ".running_mean", dims, lists[2]}, {made.layer + ".running_var", dims, lists[3]}}};
  return made;
}

Value Builder::norm(const std::string& name, const std::string& fields, const Value& from, std::vector<float> factors,
                    std::vector<float> terms) {
  Value made = plain(name, fields, from);
  const auto channels = static_cast<std::size_t>(from.maps.channels);
  const bool affine = !factors.empty();
  if (!affine) factors.assign(channels, 1.0F), terms.assign(channels, 0.0F);
  parameters_[made.layer] = {.weights = {made.layer + ".weight", {from.maps.channels}, std::move(factors)},
                             .bias = std::move(terms),
                             .affine = affine,
                             .others = {}};
  return made;
}

Value Builder::prelu(const std::string& name, const Value& from, std::vector<float> slopes) {
  Value made = plain(name, "prelu", from);
  parameters_[made.layer] = {.weights = {made.layer + ".weight", {from.maps.channels}, std::move(slopes)},
                             .bias = {},
                             .has_bias = false,
                             .others = {}};
  return made;
}

Value Builder::dense(const std::string& name, const Value& from, int units, std::vector<float> weights,
                     std::vector<float> bias) {
  Value made = add(name, fmt::format("dense, units: {}", units), {from}, {units, 1, 1});
  made.dims = {units};
  parameters_[made.layer] = {.weights = {made.layer + ".weight", {units, from.size()}, std::move(weights)},
                             .bias = std::move(bias),
                             .others = {}};
  return made;
}

void Builder::change(const Value& of, const std::vector<float>& by,
                     const std::function<void(float& weight, float& bias, float by)>& how) {
  Parameters& parameters = parameters_.at(of.layer);
  parameters.has_bias = true;
  parameters.affine = true;
  const std::size_t outputs = parameters.bias.size();
  const std::size_t row = parameters.weights.values.size() / outputs;
  for (std::size_t u = 0; u < outputs; ++u) {
    const float number = by.size() == 1 ? by[0] : by[u];
    float ignored = 0.0F;
    for (std::size_t i = 0; i < row; ++i) how(parameters.weights.values[u * row + i], ignored, number);
    float none = 0.0F;
    how(none, parameters.bias[u], number);
  }
}

void Builder::end(const std::vector<Value>& outputs) {
  // The last loss of a net file is the main one.
  for (std::size_t i = outputs.size(); i-- > 0;) {
    add(i == 0 ? "loss" : "side_loss", "softmax_cross_entropy", {outputs[i]}, {1, 1, 1});
  }
}

std::string Builder::yaml() const {
  std::string text = fmt::format("name: {}\ninput: {{channels: {}, height: {}, width: {}}}\nlayers:\n", name_,
                                 input_.channels, input_.height, input_.width);
  for (const Line& line : lines_) {
    const auto parameters = parameters_.find(line.name);
    const bool known = parameters != parameters_.end();
    const bool bare = known && !parameters->second.has_bias && line.fields.starts_with("conv");
    const bool plain = known && !parameters->second.affine;
    text += fmt::format("  - {{name: {}, from: [{}], type: {}{}{}}}\n", line.name, line.from, line.fields,
                        bare ? ", bias: false" : "", plain ? ", affine: false" : "");
  }
  return text + "training: {batch: 32, epochs: 10, learning_rate: 0.001, momentum: 0.9}\n";
}

std::vector<NamedTensor> Builder::tensors() const {
  std::vector<NamedTensor> all;
  for (const Line& line : lines_) {
    const auto found = parameters_.find(line.name);
    if (found == parameters_.end() || !found->second.affine) continue;
    const Parameters& parameters = found->second;
    all.push_back(parameters.weights);
    if (parameters.has_bias) {
      all.push_back({line.name + ".bias", {static_cast<std::int64_t>(parameters.bias.size())}, parameters.bias});
    }
    all.insert(all.end(), parameters.others.begin(), parameters.others.end());
  }
  return all;
}

}  // namespace convoy::onnx_file
