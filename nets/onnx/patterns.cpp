// Finds activations and norms that a model composes of several nodes.

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <optional>

#include "nets/onnx/importer.hpp"

namespace convoy::onnx_file {
namespace {

class Joiner {
 public:
  explicit Joiner(Graph& graph) : graph_(graph) {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const std::string& output : graph_.nodes[i].outputs) makers_[output] = i;
      for (const std::string& input : graph_.nodes[i].inputs) ++readers_[input];
    }
  }

  void run() {
    bool any = false;
    for (Node& node : graph_.nodes) {
      if (!node.domain.empty() || !node.refused.empty() || node.inputs.size() != 2) continue;
      if (node.type == "Mul" || node.type == "Div") any = join_hard_sigmoid(node) || any;
      if (node.type == "Div") any = join_norm(node) || join_response_norm(node) || any;
      if (node.type == "Gather") any = join_strided(node) || any;
      if (node.type == "Mul") any = join_product(node) || join_gelu(node) || any;
    }
    if (any) graph_.nodes = needed(std::move(graph_.nodes), graph_.outputs);
  }

 private:
  /// The node that computes a value, if it has the operator `type` and, unless that is Constant, inputs.
  const Node* maker(const std::string& name, const char* type) const {
    const auto found = makers_.find(name);
    if (found == makers_.end()) return nullptr;
    const Node& node = graph_.nodes[found->second];
    const bool fits = node.type == type && node.domain.empty() && node.refused.empty() && node.outputs[0] == name;
    return fits && (!node.inputs.empty() || node.type == "Constant") ? &node : nullptr;
  }

  /// The value of a constant with one element.
  std::optional<double> number_of(const std::string& name) const {
    const auto found = graph_.constants.find(name);
    const Constant* constant = found == graph_.constants.end() ? nullptr : &found->second;
    if (const Node* node = maker(name, "Constant")) {
      const auto value = node->attributes.find("value");
      if (value != node->attributes.end() && value->second.tensor) constant = &*value->second.tensor;
      if (node->attributes.contains("value_float")) return number(*node, "value_float", 0.0);
    }
    if (constant == nullptr || constant->whole || constant->floats.size() != 1 || constant->dims.size() > 1) return {};
    return constant->floats[0];
  }

  static bool is_near(const std::optional<double>& number, double expected) {
    return number && std::abs(*number - expected) < 1e-6 * std::abs(expected);
  }

  static void replace(Node& node, const std::string& input, const char* type, const char* joined) {
    node.type = type;
    node.joined = joined;
    node.inputs = {input};
    node.attributes.clear();
  }

  /// The other input of a node of two inputs, one of which is the constant `expected`; empty if there is none.
  std::string beside(const Node& node, double expected) const {
    if (node.inputs.size() != 2) return "";
    for (std::size_t i = 0; i < 2; ++i) {
      if (is_near(number_of(node.inputs[i]), expected)) return node.inputs[1 - i];
    }
    return "";
  }

  /// Whether a node clips its input to 0 to 6.
  bool is_relu6(const Node& node) const {
    const auto bound = [&](std::size_t input, const char* attribute) -> std::optional<double> {
      if (input < node.inputs.size()) return number_of(node.inputs[input]);
      return number(node, attribute, -1.0);
    };
    const auto low = bound(1, "min");
    return low && *low == 0.0 && is_near(bound(2, "max"), 6.0);
  }

  /// relu6(x + 3) / 6 is HardSigmoid(x) with alpha 1/6 and beta 1/2.
  bool join_hard_sigmoid(Node& node) {
    std::string clipped;
    if (node.type == "Mul") clipped = beside(node, 1.0 / 6.0);
    if (node.type == "Div" && is_near(number_of(node.inputs[1]), 6.0)) clipped = node.inputs[0];
    const Node* clip = maker(clipped, "Clip");
    const Node* sum = clip == nullptr || !is_relu6(*clip) ? nullptr : maker(clip->inputs[0], "Add");
    const std::string from = sum == nullptr ? "" : beside(*sum, 3.0);
    if (from.empty()) return false;
    replace(node, from, "HardSigmoid", "Add, Clip and Div");
    node.attributes["alpha"].number = 1.0 / 6.0;
    node.attributes["beta"].number = 0.5;
    return true;
  }

  /// The integers of a constant.
  const Constant* integers_of(const std::string& name) const {
    const auto found = graph_.constants.find(name);
    const Constant* constant = found == graph_.constants.end() ? nullptr : &found->second;
    if (const Node* node = maker(name, "Constant")) {
      const auto value = node->attributes.find("value");
      if (value != node->attributes.end() && value->second.tensor) constant = &*value->second.tensor;
    }
    return constant != nullptr && constant->whole ? constant : nullptr;
  }

  /// A Gather of all elements of a list in their order is a Reshape, as which PyTorch's exporter writes as_strided.
  bool join_strided(Node& node) {
    const Node* list = maker(node.inputs[0], "Reshape");
    const Constant* shape = list == nullptr || list->inputs.size() != 2 ? nullptr : integers_of(list->inputs[1]);
    const Constant* places = integers_of(node.inputs[1]);
    if (shape == nullptr || shape->integers != std::vector<std::int64_t>{-1} || places == nullptr) return false;
    if (places->dims.size() < 3) return false;  // it may well take a part of a shape
    std::vector<std::int64_t> in_order(places->integers.size());
    std::iota(in_order.begin(), in_order.end(), 0);
    const std::string name = "shape of " + node.outputs[0];
    if (integer(node, "axis", 0) != 0 || places->integers != in_order || graph_.constants.contains(name)) return false;
    const Constant dims{.dims = {static_cast<std::int64_t>(places->dims.size())},
                        .floats = {},
                        .integers = places->dims,
                        .whole = true};
    replace(node, list->inputs[0], "Reshape", "Reshape and Gather");
    graph_.constants[name] = dims;
    node.inputs.push_back(name);
    return true;
  }

  /// The axes over which a node takes means and keeps them; none if it is no such node.
  std::vector<std::int64_t> mean_axes(const Node* mean) const {
    if (mean == nullptr || integer(*mean, "keepdims", 1) == 0) return {};
    if (mean->inputs.size() < 2) return integers(*mean, "axes", {});
    const Constant* axes = integers_of(mean->inputs[1]);
    return axes == nullptr ? std::vector<std::int64_t>{} : axes->integers;
  }

  /// The value whose square a node computes; empty if it is no such node.
  std::string squared(const std::string& name) const {
    if (const Node* product = maker(name, "Mul")) {
      return product->inputs.size() == 2 && product->inputs[0] == product->inputs[1] ? product->inputs[0] : "";
    }
    const Node* power = maker(name, "Pow");
    return power != nullptr && power->inputs.size() == 2 && is_near(number_of(power->inputs[1]), 2.0) ? power->inputs[0]
                                                                                                      : "";
  }

  /// (x - mean) / Sqrt(mean of (x - mean)^2 + epsilon) is a norm over the axes of the means.
  bool join_norm(Node& node) {
    const Node* distance = maker(node.inputs[0], "Sub");
    const Node* root = maker(node.inputs[1], "Sqrt");
    const Node* sum = root == nullptr ? nullptr : maker(root->inputs[0], "Add");
    if (distance == nullptr || distance->inputs.size() != 2 || sum == nullptr || sum->inputs.size() != 2) return false;
    const std::string from = distance->inputs[0];
    const Node* mean = maker(distance->inputs[1], "ReduceMean");
    for (std::size_t i = 0; i < 2; ++i) {
      const auto epsilon = number_of(sum->inputs[1 - i]);
      const Node* variance = maker(sum->inputs[i], "ReduceMean");
      if (!epsilon || mean == nullptr || variance == nullptr || mean->inputs[0] != from) continue;
      // PyTorch subtracts the mean once or twice.
      const Node* again = maker(squared(variance->inputs[0]), "Sub");
      const std::vector<std::int64_t> axes = mean_axes(mean);
      if (again == nullptr || again->inputs != distance->inputs || axes.empty() || mean_axes(variance) != axes)
        continue;
      replace(node, from, "LayerNormalization", "ReduceMean, Sub, Sqrt and Div");
      node.attributes["axes"].integers = axes;
      node.attributes["epsilon"].number = *epsilon;
      return true;
    }
    return false;
  }

  /// A node of two inputs of which one is a number, and the other input.
  struct WithNumber {
    double number = 0.0;
    std::string other;
  };
  /// The second input is the number, unless the order does not matter.
  std::optional<WithNumber> with_number(const std::string& name, const char* type, bool ordered) const {
    const Node* node = maker(name, type);
    if (node == nullptr || node->inputs.size() != 2) return {};
    for (const std::size_t i : {1U, 0U}) {
      if (i == 0 && ordered) break;
      if (const auto found = number_of(node->inputs[i])) return WithNumber{*found, node->inputs[1 - i]};
    }
    return {};
  }

  /// Whether a convolution of 1x1 sums the channels of an LRN over `size` channels.
  bool sums_neighbours(const Node* conv, double size) const {
    if (conv == nullptr || conv->inputs.size() != 2 || !conv->attributes.empty()) return false;
    const auto found = graph_.constants.find(conv->inputs[1]);
    if (found == graph_.constants.end() || found->second.dims.size() != 4 || !(size >= 1.0 && size < 1e6)) return false;
    const Constant& band = found->second;
    const std::int64_t channels = band.dims[0];
    if (band.dims != std::vector<std::int64_t>{channels, channels, 1, 1} || band.whole) return false;
    for (std::int64_t i = 0; i < channels * channels; ++i) {
      const bool in = in_band(static_cast<std::int64_t>(size), i / channels, i % channels);
      if (band.floats[i] != (in ? 1.0F : 0.0F)) return false;
    }
    return true;
  }

  /// x / (k + alpha * sums of neighbouring squares / size)^beta is an LRN, as Convoy exports one over an even number of
  /// channels.
  bool join_response_norm(Node& node) {
    const auto power = with_number(node.inputs[1], "Pow", true);
    const auto sum = power ? with_number(power->other, "Add", false) : std::nullopt;
    const auto mean = sum ? with_number(sum->other, "Div", true) : std::nullopt;
    const auto scaled = mean ? with_number(mean->other, "Mul", false) : std::nullopt;
    const Node* conv = scaled ? maker(scaled->other, "Conv") : nullptr;
    const std::string from = node.inputs[0];
    if (!sums_neighbours(conv, mean ? mean->number : 0.0) || squared(conv->inputs[0]) != from) return false;
    replace(node, from, "LRN", "Mul, Conv, Pow and Div");
    node.attributes["size"].number = mean->number;
    node.attributes["alpha"].number = scaled->number;
    node.attributes["beta"].number = power->number;
    node.attributes["bias"].number = sum->number;
    return true;
  }

  /// x Sigmoid(x) is Swish(x), x HardSigmoid(x) is HardSwish(x), and x Tanh(Softplus(x)) is Mish(x).
  bool join_product(Node& node) {
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string from = node.inputs[i];
      const std::string gate = node.inputs[1 - i];
      const Node* sigmoid = maker(gate, "Sigmoid");
      if (sigmoid != nullptr && sigmoid->inputs[0] == from) {
        replace(node, from, "Swish", "Mul by the Sigmoid of the same value");
        return true;
      }
      const Node* height = maker(gate, "Tanh");
      const Node* soft = height == nullptr ? nullptr : maker(height->inputs[0], "Softplus");
      if (soft != nullptr && soft->inputs[0] == from) {
        replace(node, from, "Mish", "Softplus, Tanh and Mul");
        return true;
      }
      const Node* hard = maker(gate, "HardSigmoid");
      if (hard != nullptr && hard->inputs[0] == from && is_near(number(*hard, "alpha", 0.2), 1.0 / 6.0) &&
          is_near(number(*hard, "beta", 0.5), 0.5)) {
        replace(node, from, "HardSwish", "Mul by the HardSigmoid of the same value");
        return true;
      }
    }
    return false;
  }

  /// Appends what a tree of multiplications multiplies.
  void add_factors(const std::string& name, int depth, std::vector<std::string>& factors) const {
    const Node* product = maker(name, "Mul");
    const auto readers = readers_.find(name);
    const bool inside = product != nullptr && product->inputs.size() == 2 && readers->second == 1 && depth > 0;
    if (!inside) {
      factors.push_back(name);
      return;
    }
    for (const std::string& input : product->inputs) add_factors(input, depth - 1, factors);
  }

  /// The value x of 1 + Erf(x / sqrt 2), or an empty text.
  std::string in_erf(const std::string& name) const {
    const Node* sum = maker(name, "Add");
    const Node* erf = sum == nullptr ? nullptr : maker(beside(*sum, 1.0), "Erf");
    if (erf == nullptr) return "";
    if (const Node* by = maker(erf->inputs[0], "Mul")) return beside(*by, std::sqrt(0.5));
    const Node* quotient = maker(erf->inputs[0], "Div");
    const bool fits =
        quotient != nullptr && quotient->inputs.size() == 2 && is_near(number_of(quotient->inputs[1]), std::sqrt(2.0));
    return fits ? quotient->inputs[0] : "";
  }

  /// The value whose third power a node computes; empty if it is no such node.
  std::string cubed(const std::string& name) const {
    const auto power = with_number(name, "Pow", true);
    if (power) return is_near(power->number, 3.0) ? power->other : "";
    const Node* product = maker(name, "Mul");
    if (product == nullptr || product->inputs.size() != 2) return "";
    for (std::size_t i = 0; i < 2; ++i) {
      if (squared(product->inputs[i]) == product->inputs[1 - i]) return product->inputs[1 - i];
    }
    return "";
  }

  /// The value x of 1 + Tanh(sqrt(2 / pi) (x + 0.044715 x^3)), or an empty text.
  std::string in_tanh(const std::string& name) const {
    const Node* sum = maker(name, "Add");
    const Node* height = sum == nullptr ? nullptr : maker(beside(*sum, 1.0), "Tanh");
    const Node* scaled = height == nullptr ? nullptr : maker(height->inputs[0], "Mul");
    const Node* inner = scaled == nullptr ? nullptr : maker(beside(*scaled, std::sqrt(2.0 / std::numbers::pi)), "Add");
    for (std::size_t i = 0; inner != nullptr && inner->inputs.size() == 2 && i < 2; ++i) {
      const Node* part = maker(inner->inputs[1 - i], "Mul");
      if (part != nullptr && cubed(beside(*part, 0.044715)) == inner->inputs[i]) return inner->inputs[i];
    }
    return "";
  }

  /// x (1 + Erf(x / sqrt 2)) / 2 is Gelu(x), and with the Tanh of in_tanh() its approximation.
  bool join_gelu(Node& node) {
    std::vector<std::string> factors;
    for (const std::string& input : node.inputs) add_factors(input, 1, factors);
    if (factors.size() != 3) return false;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string exact = in_erf(factors[i]);
      const std::string from = exact.empty() ? in_tanh(factors[i]) : exact;
      const std::string& other = factors[(i + 1) % 3];
      const std::string& last = factors[(i + 2) % 3];
      const bool fits = !from.empty() && ((other == from && is_near(number_of(last), 0.5)) ||
                                          (last == from && is_near(number_of(other), 0.5)));
      if (!fits) continue;
      replace(node, from, "Gelu", exact.empty() ? "Tanh, Add and Mul" : "Erf, Add and Mul");
      if (exact.empty()) node.attributes["approximate"].text = "tanh";
      return true;
    }
    return false;
  }

  Graph& graph_;
  std::map<std::string, std::size_t> makers_;
  std::map<std::string, int> readers_;
};

}  // namespace

void join_activations(Graph& graph) { Joiner(graph).run(); }

}  // namespace convoy::onnx_file
