// What Convoy knows of ONNX's operators besides those with an import of their own: activations, and why others are
// refused.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "nets/onnx/importer.hpp"

namespace convoy::onnx_file {
namespace {

/// One bound of a Clip: an attribute before opset 11, then an input.
float bound_of(const Node& node, const Inputs& constants, std::size_t input, const char* attribute, float otherwise) {
  if (input < node.inputs.size() && !node.inputs[input].empty()) {
    const Constant* given = constants[input];
    if (given == nullptr || given->size() != 1) refuse("its {} must be a constant number", attribute);
    return given->whole ? static_cast<float>(given->integers[0]) : given->floats[0];
  }
  return static_cast<float>(number(node, attribute, otherwise));
}

ActivationLayer clip_layer(const Node& node, const Inputs& constants) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const float low = bound_of(node, constants, 1, "min", -kLargest);
  const float high = bound_of(node, constants, 2, "max", kLargest);
  if (!(low < high)) refuse("it clips to {} to {}; expected the smaller number first", low, high);
  if (low <= -kLargest && high >= kLargest) return {};
  const bool positive = low >= 0.0F;
  if (low == 0.0F && high >= kLargest) return {"relu", positive};
  if (low == 0.0F && high == 6.0F) return {"relu6", positive};
  std::string clip = "clip";
  if (low > -kLargest) clip += fmt::format(", low: {:.9g}", low);
  if (high < kLargest) clip += fmt::format(", high: {:.9g}", high);
  return {clip, positive};
}

ActivationLayer leaky_relu_layer(const Node& node, const Inputs&) {
  const double slope = number(node, "alpha", 0.01);
  if (!(slope >= 0.0 && slope <= 100.0)) refuse("its slope alpha is {}; expected 0 to 100", slope);
  return {fmt::format("leaky_relu, slope: {}", slope)};
}

ActivationLayer elu_layer(const Node& node, const Inputs&) {
  return {fmt::format("elu, alpha: {:.9g}", number(node, "alpha", 1.0))};
}

ActivationLayer selu_layer(const Node& node, const Inputs&) {
  // ONNX's own constants, to within the rounding of exporters.
  const bool usual = std::abs(number(node, "alpha", 1.67326324) - 1.67326324) < 1e-6 &&
                     std::abs(number(node, "gamma", 1.05070099) - 1.05070099) < 1e-6;
  if (!usual) refuse("its alpha or gamma differ from those of the SELU");
  return {"selu"};
}

ActivationLayer hard_sigmoid_layer(const Node& node, const Inputs&) {
  return {
      fmt::format("hard_sigmoid, alpha: {:.9g}, beta: {:.9g}", number(node, "alpha", 0.2), number(node, "beta", 0.5)),
      true};
}

ActivationLayer swish_layer(const Node& node, const Inputs&) {
  if (number(node, "alpha", 1.0) != 1.0) refuse("its alpha is {}; expected 1", number(node, "alpha", 1.0));
  return {"silu"};
}

ActivationLayer gelu_layer(const Node& node, const Inputs&) {
  const std::string how = text(node, "approximate", "none");
  if (how != "none" && how != "tanh") refuse("it approximates the GELU by {}; expected none or tanh", how);
  return {how == "tanh" ? "gelu, approximate: tanh" : "gelu"};
}

ActivationLayer celu_layer(const Node& node, const Inputs&) {
  const double alpha = number(node, "alpha", 1.0);
  if (!(alpha >= 0.001 && alpha <= 100.0)) refuse("its alpha is {}; expected 0.001 to 100", alpha);
  return {fmt::format("celu, alpha: {:.9g}", alpha)};
}

using MakeLayer = ActivationLayer (*)(const Node&, const Inputs&);

const std::map<std::string, MakeLayer>& activations() {
  static const std::map<std::string, MakeLayer> all{
      {"Celu", celu_layer},
      {"Clip", clip_layer},
      {"Elu", elu_layer},
      {"Gelu", gelu_layer},
      {"HardSigmoid", hard_sigmoid_layer},
      {"HardSwish", [](const Node&, const Inputs&) { return ActivationLayer{"hard_swish"}; }},
      {"LeakyRelu", leaky_relu_layer},
      {"Mish", [](const Node&, const Inputs&) { return ActivationLayer{"mish"}; }},
      {"Relu",
       [](const Node&, const Inputs&) {
         return ActivationLayer{"relu", true};
       }},
      {"Selu", selu_layer},
      {"Sigmoid",
       [](const Node&, const Inputs&) {
         return ActivationLayer{"sigmoid", true};
       }},
      {"Softplus",
       [](const Node&, const Inputs&) {
         return ActivationLayer{"softplus", true};
       }},
      {"Swish", swish_layer},
      {"Tanh", [](const Node&, const Inputs&) { return ActivationLayer{"tanh"}; }}};
  return all;
}

/// Reasons by operator. Each says what is missing, and what the user can do.
const std::map<std::string, const char*>& reasons() {
  constexpr const char* kWeights = "its weights are packed; export the model in float, without quantisation";
  constexpr const char* kBranches =
      "Convoy's nets have no branches or loops that depend on values; export the model with fixed "
      "shapes";
  constexpr const char* kAnswer = "a net's outputs are one score for each class; remove the node from the model's end";
  static const std::map<std::string, const char*> all{
      {"ArgMax", kAnswer},       {"DequantizeLinear", kWeights}, {"If", kBranches},   {"Loop", kBranches},
      {"QLinearConv", kWeights}, {"QuantizeLinear", kWeights},   {"Scan", kBranches}, {"TopK", kAnswer}};
  return all;
}

}  // namespace

bool is_activation(const std::string& type) { return activations().contains(type); }

ActivationLayer activation_layer(const Node& node, const Inputs& constants) {
  return activations().at(node.type)(node, constants);
}

std::string why_refused(const Node& node) {
  const auto found = reasons().find(node.type);
  if (found != reasons().end()) return found->second;
  return "no layer of Convoy does this; docs/nets.md lists the operators that can be imported";
}

std::string list_of_refused(const std::vector<std::pair<Node, std::string>>& refused, std::size_t nodes) {
  constexpr std::size_t kMostNames = 50;
  constexpr std::size_t kMostGroups = 200;
  std::vector<std::pair<const Node*, const std::string*>> groups;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> names;
  for (const auto& [node, reason] : refused) {
    std::vector<std::string>& of_group = names[{node.type, reason}];
    if (of_group.empty()) groups.emplace_back(&node, &reason);
    of_group.push_back(node.name);
  }
  std::string list;
  if (refused.size() > 1) list = fmt::format("{} of the model's {} nodes cannot be imported:\n", refused.size(), nodes);
  for (std::size_t g = 0; g < std::min(groups.size(), kMostGroups); ++g) {
    const auto& [node, reason] = groups[g];
    const std::vector<std::string>& all = names[{node->type, *reason}];
    std::string shown;
    for (std::size_t i = 0; i < std::min(all.size(), kMostNames); ++i) shown += (i == 0 ? "" : ", ") + all[i];
    if (all.size() > kMostNames) shown += fmt::format(" and {} more", all.size() - kMostNames);
    list += fmt::format("{}{} {} ({}): {}", g == 0 ? "" : "\n", all.size() == 1 ? "node" : "nodes", shown,
                        node->joined.empty() ? node->type : node->joined, *reason);
  }
  if (groups.size() > kMostGroups) list += fmt::format("\nand {} more reasons", groups.size() - kMostGroups);
  return list;
}

}  // namespace convoy::onnx_file
