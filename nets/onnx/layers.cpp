// The operators that become layers or change weights.

#include <algorithm>
#include <utility>

#include "nets/onnx/importer.hpp"

namespace convoy::onnx_file {

std::vector<int> Importer::sides(const Node& node, const Value& from, const std::vector<int>& kernel,
                                 const std::vector<int>& strides) const {
  const auto automatic = node.attributes.find("auto_pad");
  const std::string how = automatic == node.attributes.end() ? "NOTSET" : automatic->second.text;
  std::vector<int> pads = integers(node, "pads", {0, 0, 0, 0});
  if (pads.size() != 4) refuse(node, "pads has {} numbers; expected 4", pads.size());
  if (how == "VALID") return {0, 0, 0, 0};
  if (how == "SAME_UPPER" || how == "SAME_LOWER") {
    for (std::size_t i = 0; i < 2; ++i) {
      const int extent = from.dims[1 + i];
      const int outputs = (extent + strides[i] - 1) / strides[i];
      const int total = std::max((outputs - 1) * strides[i] + kernel[i] - extent, 0);
      const int less = total / 2;
      pads[i] = how == "SAME_UPPER" ? less : total - less;
      pads[i + 2] = total - pads[i];
    }
  } else if (how != "NOTSET") {
    refuse(node, "auto_pad is {}; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", how);
  }
  return pads;
}

std::vector<int> Importer::two(const Node& node, const std::string& attribute, std::vector<int> otherwise) const {
  std::vector<int> values = integers(node, attribute, std::move(otherwise));
  if (values.size() != 2) refuse(node, "{} has {} numbers; expected 2, for rows and columns", attribute, values.size());
  for (const int each : values) {
    if (each < 1) refuse(node, "{} is {}; expected at least 1", attribute, each);
  }
  return values;
}

void Importer::expect_dense_windows(const Node& node) const {
  if (two(node, "dilations", {1, 1}) != std::vector<int>{1, 1})
    refuse(node, "dilations is not 1; Convoy has no dilated convolution or pooling");
}

void Importer::conv(const Node& node) {
  const Value& from = maps(node);
  const Constant& weights = constant(node, 1, "weights");
  if (weights.dims.size() != 4) refuse(node, "its weights have {} extents; expected 4", weights.dims.size());
  expect_dense_windows(node);
  const std::vector<int> extents = narrow(weights.dims);
  const auto groups = static_cast<long>(number(node, "group", 1));
  if (groups < 1 || groups > from.dims[0] || extents[0] % groups != 0) {
    refuse(node, "{} filters and {} channels are not divisible into {} groups", extents[0], from.dims[0], groups);
  }
  if (extents[1] * groups != from.dims[0]) {
    refuse(node, "its weights are for {} channels, but its input has {}", extents[1] * groups, from.dims[0]);
  }
  const std::vector<int> kernel = two(node, "kernel_shape", {extents[2], extents[3]});
  if (kernel != std::vector<int>{extents[2], extents[3]})
    refuse(node, "its kernel_shape differs from the extents of its weights");
  const std::vector<int> strides = two(node, "strides", {1, 1});
  std::vector<int> pads = sides(node, from, kernel, strides);
  for (std::size_t i = 0; i < 4; ++i) pads[i] += from.padded[i];
  std::vector<float> bias;
  if (has(node, 2)) bias = floats(node, 2, "bias");
  if (has(node, 2) && bias.size() != static_cast<std::size_t>(extents[0]))
    refuse(node, "its bias has {} values; expected {}", bias.size(), extents[0]);
  give_bare(node, builder_.conv(node.name, from, extents, static_cast<int>(groups), strides, pads,
                                floats(node, 1, "weights"), std::move(bias)));
}

void Importer::pool(const Node& node) {
  const Value& from = maps(node);
  if (from.padded != std::array<int, 4>{}) refuse(node, "a Pad comes before it; padding can be folded into Conv only");
  if (node.outputs.size() > 1 && readers_.contains(node.outputs[1]))
    refuse(node, "another node reads its second output, the indices; Convoy does not compute them");
  expect_dense_windows(node);
  const std::vector<int> kernel = two(node, "kernel_shape", {});
  const std::vector<int> strides = two(node, "strides", {1, 1});
  std::vector<int> pads = sides(node, from, kernel, strides);
  const bool counted = node.type == "AveragePool" && number(node, "count_include_pad", 0) != 0 &&
                       std::ranges::any_of(pads, [](int pad) { return pad != 0; });
  if (counted) refuse(node, "count_include_pad is set; Convoy's average pooling leaves padding out");
  if (number(node, "ceil_mode", 0) != 0) {
    for (std::size_t i = 0; i < 2; ++i) {
      const int room = from.dims[1 + i] + pads[i] + pads[i + 2] - kernel[i];
      pads[i + 2] += room % strides[i] == 0 ? 0 : strides[i] - room % strides[i];
    }
  }
  give(node,
       builder_.window(node.name, node.type == "MaxPool" ? "max_pool" : "average_pool", from, kernel, strides, pads));
}

void Importer::global_average_pool(const Node& node) {
  const Value& from = maps(node);
  give(node, builder_.plain(node.name, "global_average_pool", from, {from.dims[0], 1, 1}));
}

void Importer::activation(const Node& node) {
  static const std::map<std::string, std::string> types{
      {"Relu", "relu"}, {"Sigmoid", "sigmoid"}, {"Tanh", "tanh"}, {"LeakyRelu", "leaky_relu"}};
  const Value& from = value(node, 0);
  const std::string slope = node.type == "LeakyRelu" ? fmt::format(", slope: {}", number(node, "alpha", 0.01)) : "";
  give(node, builder_.plain(node.name, types.at(node.type) + slope, from, from.dims));
}

void Importer::batch_norm(const Node& node) {
  const Value& from = maps(node);
  if (number(node, "training_mode", 0) != 0) refuse(node, "training_mode is set; export the model for inference");
  if (number(node, "spatial", 1) != 1) refuse(node, "spatial is 0; expected statistics for each channel");
  std::vector<std::vector<float>> lists;
  for (std::size_t i = 1; i < 5; ++i) {
    lists.push_back(floats(node, i, "statistics"));
    if (lists.back().size() != static_cast<std::size_t>(from.dims[0]))
      refuse(node, "a list of its statistics has {} values for {} channels", lists.back().size(), from.dims[0]);
  }
  const std::string fields = fmt::format("batch_norm, epsilon: {:.9g}, momentum: {:.6g}", number(node, "epsilon", 1e-5),
                                         1.0 - number(node, "momentum", 0.9));
  give_bare(node, builder_.batch_norm(node.name, fields, from, lists));
}

void Importer::response_norm(const Node& node) {
  const Value& from = maps(node);
  give(node, builder_.plain(
                 node.name,
                 fmt::format("response_norm, size: {}, alpha: {:.9g}, beta: {:.9g}, k: {:.9g}", number(node, "size", 1),
                             number(node, "alpha", 1e-4), number(node, "beta", 0.75), number(node, "bias", 1)),
                 from, from.dims));
}

void Importer::dropout(const Node& node) {
  const Value from = value(node, 0);
  double rate = number(node, "ratio", 0.5);
  if (const Constant* ratio = constant_if(node, 1)) {
    if (ratio->floats.size() != 1) refuse(node, "its ratio has {} values; expected 1", ratio->floats.size());
    rate = ratio->floats[0];
  }
  if (rate == 0.0) {
    values_[node.outputs[0]] = from;
    return;
  }
  give(node, builder_.plain(node.name, fmt::format("dropout, rate: {:.6g}", rate), from, from.dims));
}

void Importer::softmax(const Node& node) {
  Value last = value(node, 0);
  last.ended = true;
  imported_.softmax = node.type == "Softmax";
  values_[node.outputs[0]] = last;
}

void Importer::concat(const Node& node) {
  std::vector<Value> all;
  int channels = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    all.push_back(maps(node, i));
    channels = std::min(channels + all.back().dims[0], 1 << 28);
  }
  const double axis = number(node, "axis", 1);
  if (axis != 1 && axis != -3) refuse(node, "axis is {}; expected 1, the channels", axis);
  if (all.size() == 1) {
    values_[node.outputs[0]] = all[0];
    return;
  }
  give(node, builder_.joined(node.name, "concat", all, {channels, all[0].dims[1], all[0].dims[2]}));
}

void Importer::add(const Node& node) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (constant_if(node, i) == nullptr) continue;
    if (node.inputs.size() != 2)
      refuse(node, "a constant is one of its {} inputs; expected 2 inputs", node.inputs.size());
    return change(node, 1 - i, floats(node, i, "constant"), i, [](float& weight, float& bias, float by) {
      static_cast<void>(weight);
      bias += by;
    });
  }
  std::vector<Value> all;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    all.push_back(value(node, i));
    if (all[i].dims != all[0].dims || all[i].channels_last != all[0].channels_last) {
      refuse(node, "its inputs have different shapes");
    }
  }
  if (all.size() == 1) {
    values_[node.outputs[0]] = all[0];
    return;
  }
  give(node, builder_.joined(node.name, "add", all, all[0].dims));
}

void Importer::multiply(const Node& node) {
  const std::size_t by = constant_if(node, 0) != nullptr ? 0 : 1;
  const std::vector<float>& factors = floats(node, by, "factor");
  change(node, 1 - by, factors, by, [](float& weight, float& bias, float factor) {
    weight *= factor;
    bias *= factor;
  });
}

void Importer::change(const Node& node, std::size_t input, const std::vector<float>& by, std::size_t constant_input,
                      const std::function<void(float& weight, float& bias, float by)>& how) {
  const Value from = value(node, input);
  const std::vector<std::int64_t>& dims = constant(node, constant_input, "constant").dims;
  const std::size_t channels = static_cast<std::size_t>(from.dims[0]);
  // Broadcasting aligns the last extents, and the channels stand before the rows and columns.
  const std::size_t behind = from.dims.size() - 1;
  const bool each =
      by.size() == channels && dims.size() > behind && std::cmp_equal(dims[dims.size() - 1 - behind], channels);
  if (!each && by.size() != 1)
    refuse(node, "its constant has {} values; expected one, or one for each of {} channels", by.size(), channels);
  if (!from.bare || readers_[node.inputs[input]] != 1) {
    refuse(node,
           "its constant can be folded only into a Conv, Gemm, MatMul or BatchNormalization right before it, whose "
           "output no other node reads");
  }
  builder_.change(from, by, how);
  values_[node.outputs[0]] = from;  // the value stays bare, so that further constants can be folded
}

void Importer::gemm(const Node& node) {
  if (number(node, "transA", 0) != 0) refuse(node, "transA is set; expected 0");
  const Constant& weights = constant(node, 1, "weights");
  std::vector<float> bias;
  if (has(node, 2)) bias = floats(node, 2, "bias");
  for (float& value : bias) value *= static_cast<float>(number(node, "beta", 1));
  dense(node, weights, number(node, "transB", 0) != 0, static_cast<float>(number(node, "alpha", 1)), std::move(bias));
}

void Importer::matmul(const Node& node) { dense(node, constant(node, 1, "right factor"), false, 1.0F, {}); }

void Importer::dense(const Node& node, const Constant& weights, bool by_units, float factor, std::vector<float> bias) {
  const Value& from = value(node, 0);
  if (weights.dims.size() != 2 || weights.floats.empty()) refuse(node, "its weights must be a constant matrix");
  const auto units = static_cast<std::size_t>(weights.dims[by_units ? 0 : 1]);
  const auto inputs = static_cast<std::size_t>(weights.dims[by_units ? 1 : 0]);
  if (from.dims.size() != 1 || std::cmp_not_equal(from.dims[0], inputs)) {
    refuse(node, "its weights are for {} inputs, but its input has {} extents, the first of {}", inputs,
           from.dims.size(), from.dims[0]);
  }
  if (bias.size() == 1) bias.assign(units, bias[0]);
  if (!bias.empty() && bias.size() != units) refuse(node, "its bias has {} values for {} units", bias.size(), units);
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
