// The operators that become layers or change weights.

#include <algorithm>
#include <cmath>
#include <utility>

#include "nets/onnx/importer.hpp"

namespace convoy::onnx_file {

void Importer::activation(const Node& node) {
  const Value from = value(node, 0);
  const ActivationLayer layer = activation_layer(node, constants_of(node));
  if (layer.fields.empty()) {  // it changes nothing
    values_[node.outputs[0]] = passed(node);
    return;
  }
  Value made = builder_.plain(node.name, layer.fields, from);
  made.positive = layer.positive;
  give(node, std::move(made));
}

void Importer::batch_norm(const Node& node) {
  const Value from = value(node, 0);
  // Before opset 14, a node with further outputs normalises by the batch.
  if (graph_.opset < 14 ? node.outputs.size() > 1 : number(node, "training_mode", 0) != 0) batch_statistics_ = true;
  if (number(node, "spatial", 1) != 1) refuse("spatial is 0; expected statistics for each channel");
  std::vector<std::vector<float>> lists;
  for (std::size_t i = 1; i < 5; ++i) {
    lists.push_back(floats(node, i, "statistics"));
    if (lists.back().size() != static_cast<std::size_t>(from.dims[0]))
      refuse("a list of its statistics has {} values for {} channels", lists.back().size(), from.dims[0]);
  }
  const bool list = from.dims.size() == 1;
  if (list && !from.is_point()) {
    refuse(
        "it normalises each element of flattened maps; Convoy's batch norm takes channels, or stands behind a dense "
        "layer");
  }
  const std::string fields = fmt::format("batch_norm, epsilon: {:.9g}, momentum: {:.6g}", number(node, "epsilon", 1e-5),
                                         1.0 - number(node, "momentum", 0.9));
  give_bare(node, builder_.batch_norm(node.name, fields, list ? from : maps(node), lists));
}

void Importer::response_norm(const Node& node) {
  const Value from = maps(node);
  give(node, builder_.plain(
                 node.name,
                 fmt::format("response_norm, size: {}, alpha: {:.9g}, beta: {:.9g}, k: {:.9g}", number(node, "size", 1),
                             number(node, "alpha", 1e-4), number(node, "beta", 0.75), number(node, "bias", 1)),
                 from));
}

void Importer::dropout(const Node& node) {
  const Value from = value(node, 0);
  double rate = number(node, "ratio", 0.5);
  if (has(node, 1)) {
    const Constant& ratio = constant(node, 1, "ratio");
    if (ratio.whole || ratio.size() != 1) refuse("its ratio has {} values; expected 1", ratio.size());
    rate = ratio.floats[0];
  }
  if (!(rate >= 0.0 && rate < 1.0)) refuse("its ratio is {}; expected 0 to less than 1", rate);
  if (rate == 0.0) {
    values_[node.outputs[0]] = passed(node);
    return;
  }
  Value made = builder_.plain(node.name, fmt::format("dropout, rate: {:.6g}", rate), from);
  made.positive = from.positive;
  give(node, std::move(made));
}

void Importer::softmax(const Node& node) {
  Value last = value(node, 0);
  const std::int64_t axis = axis_of(integer(node, "axis", graph_.opset < 13 ? 1 : -1), last.dims.size() + 1);
  // Before opset 13, a softmax goes over all extents from the axis on.
  const auto classes = static_cast<std::size_t>(axis == 0 ? 0 : last.dims[static_cast<std::size_t>(axis) - 1]);
  const bool all = graph_.opset < 13 ? axis == 1 : std::cmp_equal(classes, last.size());
  if (axis == 0 || !all || last.ended) {
    refuse("it takes the softmax of axis {} of {}; expected one softmax over all outputs of an image", axis,
           shown(extents_of(last)));
  }
  last.ended = true;
  last.logarithm = node.type == "LogSoftmax";
  values_[node.outputs[0]] = last;
}

void Importer::concat(const Node& node) {
  std::vector<Value> all;
  int channels = 0;
  const bool lists = !node.inputs.empty() && value(node, 0).dims.size() == 1;
  bool positive = true;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    all.push_back(lists ? value(node, i) : maps(node, i));
    const Value& each = all.back();
    if (lists && (each.dims.size() != 1 || !each.is_point())) {
      refuse("it joins lists of {} values that are flattened maps; expected maps", each.size());
    }
    if (each.maps.height != all[0].maps.height || each.maps.width != all[0].maps.width) {
      refuse("its inputs have {}x{} and {}x{} rows and columns; expected the same", all[0].maps.height,
             all[0].maps.width, each.maps.height, each.maps.width);
    }
    channels = std::min(channels + each.maps.channels, 1 << 28);
    positive = positive && each.positive;
  }
  if (all.empty()) refuse("it has no inputs");
  const std::int64_t axis = axis_of(integer(node, "axis", 1), all[0].dims.size() + 1);
  if (axis != 1) refuse("axis is {}; expected 1, the channels", axis);
  if (all.size() == 1) {
    values_[node.outputs[0]] = passed(node);
    return;
  }
  Value made = builder_.joined(node.name, "concat", all, channels);
  if (lists) made.dims = {channels};
  made.positive = positive;
  give(node, std::move(made));
}

void Importer::add(const Node& node) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (constant_if(node, i) == nullptr) continue;
    if (node.inputs.size() != 2) refuse("a constant is one of its {} inputs; expected 2 inputs", node.inputs.size());
    return change(node, 1 - i, 0.0F, [](float&, float& bias, float by) { bias += by; });
  }
  std::vector<Value> all;
  bool positive = true;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    all.push_back(value(node, i));
    const Value& each = all[i];
    if (each.dims != all[0].dims || each.channels_last != all[0].channels_last ||
        each.transposed_from != all[0].transposed_from || each.maps != all[0].maps) {
      refuse(
          "its inputs have the shapes {} and {}; Convoy adds maps of one shape, and numbers to dense layers and "
          "convolutions",
          shown(extents_of(all[0])), shown(extents_of(each)));
    }
    positive = positive && each.positive;
  }
  if (all.empty()) refuse("it has no inputs");
  if (all.size() == 1) {
    values_[node.outputs[0]] = passed(node);
    return;
  }
  Value made = builder_.joined(node.name, "add", all, all[0].maps.channels);
  made.positive = positive;
  give(node, std::move(made));
}

void Importer::subtract(const Node& node) {
  if (constant_if(node, 1) == nullptr) refuse("it subtracts values that depend on the images; Convoy adds maps only");
  change(node, 0, 0.0F, [](float&, float& bias, float by) { bias -= by; });
}

void Importer::multiply(const Node& node) {
  const std::size_t by = constant_if(node, 0) != nullptr ? 0 : 1;
  if (constant_if(node, by) == nullptr) return multiply_maps(node);
  change(node, 1 - by, 1.0F, [](float& weight, float& bias, float factor) {
    weight *= factor;
    bias *= factor;
  });
}

void Importer::multiply_maps(const Node& node) {
  Value large = value(node, 0);
  Value other = value(node, 1);
  if (large.is_point() && !other.is_point()) std::swap(large, other);
  const bool same = other.dims == large.dims && other.channels_last == large.channels_last &&
                    other.transposed_from == large.transposed_from && other.maps == large.maps;
  // One number for each channel, at the place of the channels.
  std::vector<int> points(large.dims.size(), 1);
  points[large.channels_last ? points.size() - 1 : 0] = large.maps.channels;
  const bool gates = large.dims == large.maps_as_seen() && other.is_point() && other.dims == points;
  if (!same && !gates) {
    refuse(
        "its inputs have the shapes {} and {}; Convoy multiplies maps of one shape, maps by one number for each "
        "channel, and dense layers and convolutions by constants",
        shown(extents_of(large)), shown(extents_of(other)));
  }
  Value made = builder_.joined(node.name, "multiply", {large, other}, large.maps.channels);
  made.positive = large.positive && other.positive;
  give(node, std::move(made));
}

void Importer::divide(const Node& node) {
  if (constant_if(node, 1) == nullptr) refuse("it divides by values that depend on the images; no layer does this");
  change(node, 0, 1.0F, [](float& weight, float& bias, float by) {
    weight /= by;
    bias /= by;
  });
}

void Importer::change(const Node& node, std::size_t input, float neutral,
                      const std::function<void(float& weight, float& bias, float by)>& how) {
  const Value from = value(node, input);
  const std::vector<float>& by = floats(node, 1 - input, "constant");
  const Extents& dims = constant(node, 1 - input, "constant").dims;
  const bool fits = broadcast(dims, extents_of(from)) == extents_of(from);  // refuses what does not fit at all
  if (fits && std::ranges::all_of(by, [&](float each) { return each == neutral; })) {
    values_[node.outputs[0]] = passed(node, input);
    return;
  }
  const std::size_t channels = static_cast<std::size_t>(from.maps.channels);
  // Broadcasting aligns the last extents, and the channels stand before the rows and columns, or behind them.
  const bool in_order = std::cmp_equal(from.channels_last ? from.dims.back() : from.dims[0], channels);
  const std::size_t behind = from.channels_last ? 0 : from.dims.size() - 1;
  const bool each = in_order && by.size() == channels && dims.size() > behind &&
                    std::cmp_equal(dims[dims.size() - 1 - behind], channels);
  if (!fits || (!each && by.size() != 1))
    refuse("its constant has the shape {}; expected one number, or one for each of {} channels", shown(dims), channels);
  if (from.layer == "input") {
    refuse(
        "it changes the images by a constant; in a net, input.mean and input.deviation do this, so export the model "
        "without the node and give the numbers to import");
  }
  if (!from.bare) {
    refuse(
        "its constant can be folded only into a Conv, Gemm, MatMul or BatchNormalization right before it, whose "
        "output no other node reads");
  }
  builder_.change(from, by, how);
  values_[node.outputs[0]] = from;  // the value stays bare, so that further constants can be folded
}

void Importer::gemm(const Node& node) {
  if (number(node, "transA", 0) != 0) refuse("transA is set; expected 0");
  const Constant& weights = constant(node, 1, "weights");
  std::vector<float> bias;
  if (has(node, 2)) bias = floats(node, 2, "bias");
  for (float& value : bias) value *= static_cast<float>(number(node, "beta", 1));
  dense(node, weights, number(node, "transB", 0) != 0, static_cast<float>(number(node, "alpha", 1)), std::move(bias));
}

void Importer::matmul(const Node& node) {
  const Value from = value(node, 0);
  const Constant& weights = constant(node, 1, "right factor");
  if (from.channels_last && from.dims == from.maps_as_seen()) return pointwise(node, from, weights);
  dense(node, weights, false, 1.0F, {});
}

void Importer::pointwise(const Node& node, const Value& from, const Constant& weights) {
  const int channels = from.maps.channels;
  if (weights.dims.size() != 2 || weights.floats.empty() || weights.dims[0] != channels ||
      weights.dims[1] > (1 << 20)) {
    refuse("its right factor has the shape {}; expected a matrix of a row for each of {} channels", shown(weights.dims),
           channels);
  }
  const auto units = static_cast<std::size_t>(weights.dims[1]);
  const auto inputs = static_cast<std::size_t>(channels);
  std::vector<float> rows(units * inputs);
  for (std::size_t u = 0; u < units; ++u) {
    for (std::size_t i = 0; i < inputs; ++i) rows[u * inputs + i] = weights.floats[i * units + u];
  }
  Value made = builder_.conv(node.name, from, {static_cast<int>(units), channels, 1, 1}, 1, {1, 1}, {0, 0, 0, 0},
                             {1, 1}, std::move(rows), {});
  made.channels_last = true;
  made.dims = made.maps_as_seen();
  give_bare(node, std::move(made));
}

void Importer::dense(const Node& node, const Constant& weights, bool by_units, float factor, std::vector<float> bias) {
  const Value from = value(node, 0);
  if (weights.dims.size() != 2 || weights.floats.empty()) refuse("its weights must be a constant matrix");
  const auto units = static_cast<std::size_t>(weights.dims[by_units ? 0 : 1]);
  const auto inputs = static_cast<std::size_t>(weights.dims[by_units ? 1 : 0]);
  if (from.dims.size() != 1 || std::cmp_not_equal(from.dims[0], inputs)) {
    refuse("its weights are for {} inputs, but its input has {} extents, the first of {}", inputs, from.dims.size(),
           from.dims.empty() ? 0 : from.dims[0]);
  }
  if (bias.size() == 1) bias.assign(units, bias[0]);
  if (!bias.empty() && bias.size() != units) refuse("its bias has {} values for {} units", bias.size(), units);
  bias.resize(units, 0.0F);
  std::vector<float> rows(units * inputs);
  for (std::size_t u = 0; u < units; ++u) {
    for (std::size_t i = 0; i < inputs; ++i) {
      rows[u * inputs + from.place(i)] = factor * weights.floats[by_units ? u * inputs + i : i * units + u];
    }
  }
  give_bare(node, builder_.dense(node.name, from, static_cast<int>(units), std::move(rows), std::move(bias)));
}

}  // namespace convoy::onnx_file
