// Computes the nodes that export writes for activations, by the definitions of the operators, and compares the results
// with the activations; compares imported activations with their formulas.

// Debian's headers of ONNX need the macros with which the library was built.
#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <gtest/gtest.h>
#include <onnx/checker.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>

#include "kernels/host/activation.hpp"
#include "nets/graph/net.hpp"
#include "nets/onnx/onnx.hpp"
#include "tests/nets/idioms.hpp"
#include "tests/support/known_activations.hpp"

namespace convoy {
namespace {

using Values = std::vector<double>;

/// The values of a graph by name; numbers are lists of one value.
class Evaluated {
 public:
  explicit Evaluated(const onnx::GraphProto& graph) {
    for (const onnx::TensorProto& each : graph.initializer()) {
      if (each.float_data_size() == 1) values[each.name()] = {each.float_data(0)};
    }
  }

  /// Computes a node whose inputs are known. Returns whether it is one.
  bool compute(const onnx::NodeProto& node) {
    std::vector<Values> inputs;
    for (const std::string& name : node.input()) {
      if (!name.empty() && !values.contains(name)) return false;
      inputs.push_back(name.empty() ? Values{} : values.at(name));
    }
    Values result = inputs[0];
    for (std::size_t i = 0; i < result.size(); ++i) {
      std::vector<double> others;
      for (std::size_t k = 1; k < inputs.size(); ++k) {
        others.push_back(inputs[k].empty() ? NAN : inputs[k][inputs[k].size() == 1 ? 0 : i]);
      }
      result[i] = value(node, result[i], others);
    }
    values[node.output(0)] = result;
    return true;
  }

  std::map<std::string, Values> values;

 private:
  static double attribute(const onnx::NodeProto& node, const std::string& name, double otherwise) {
    for (const onnx::AttributeProto& each : node.attribute()) {
      if (each.name() == name) return each.f();
    }
    return otherwise;
  }
  static double value(const onnx::NodeProto& node, double x, const std::vector<double>& others) {
    const std::string& type = node.op_type();
    if (type == "Mul") return x * others.at(0);
    if (type == "Div") return x / others.at(0);
    if (type == "Add") return x + others.at(0);
    if (type == "Erf") return std::erf(x);
    if (type == "Tanh") return std::tanh(x);
    if (type == "Celu") {
      const double alpha = attribute(node, "alpha", 1.0);
      return std::fmax(0.0, x) + std::fmin(0.0, alpha * std::expm1(x / alpha));
    }
    if (type == "Relu") return std::fmax(x, 0.0);
    if (type == "Sigmoid") return 1.0 / (1.0 + std::exp(-x));
    if (type == "Softplus") return std::log1p(std::exp(x));
    if (type == "Elu") return x < 0.0 ? attribute(node, "alpha", 1.0) * std::expm1(x) : x;
    if (type == "Selu") return 1.05070102214813232421875 * (x > 0.0 ? x : 1.67326319217681884765625 * std::expm1(x));
    if (type == "HardSigmoid") {
      return std::fmin(std::fmax(attribute(node, "alpha", 0.2) * x + attribute(node, "beta", 0.5), 0.0), 1.0);
    }
    EXPECT_EQ(type, "Clip");
    if (!others.empty()) x = std::fmax(x, others[0]);  // a limit that is missing is NaN, which fmax and fmin skip
    return others.size() > 1 ? std::fmin(x, others[1]) : x;
  }
};

constexpr const char* kNetWithActivation = R"(name: t
input: {channels: 1, height: 1, width: 13}
layers:
  - {name: c, type: conv, filters: 1, kernel: 1, bias: false}
  - {name: a, type: relu}
  - {name: d, type: dense, units: 2}
  - {name: l, type: softmax_cross_entropy}
)";

TEST(OnnxActivations, AreWrittenAsNodesOfTheSameValues) {
  using Kind = Activation::Kind;
  constexpr float kNone = std::numeric_limits<float>::infinity();
  std::vector<Activation> all{{Kind::clip, -kNone, 0.5F}, {Kind::clip, -0.5F, kNone}};
  for (const KnownActivation& known : known_activations()) all.push_back(known.activation);
  const std::vector<NamedTensor> tensors{{"c.weight", {1, 1, 1, 1}, {1.0F}},
                                         {"d.weight", {2, 13}, std::vector<float>(26)},
                                         {"d.bias", {2}, std::vector<float>(2)}};
  Net net = parse_net(kNetWithActivation, "t.yaml");
  for (const Activation& activation : all) {
    SCOPED_TRACE(static_cast<int>(activation.kind));
    net.layers.at(1).spec = activation;
    onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromString(to_onnx(net, tensors)));
    EXPECT_NO_THROW(onnx::checker::check_model(model));
    Evaluated evaluated(model.graph());
    evaluated.values["c"] = kKnownInputs;
    for (const onnx::NodeProto& node : model.graph().node()) {
      if (node.op_type() == "Conv") continue;
      if (node.op_type() == "Flatten" || node.op_type() == "Gemm") break;
      ASSERT_TRUE(evaluated.compute(node)) << node.name();
    }
    Values expected(kKnownInputs.size());
    activate(activation, kKnownInputs.data(), expected.data(), expected.size());
    const Values& got = evaluated.values.at("a");
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], expected[i], 1e-6 * std::max(1.0, std::abs(expected[i]))) << kKnownInputs[i];
    }
  }
}

// ---- import --------------------------------------------------------------------------------------------------------

/// Nodes of a model, and what they make of one value.
struct Imported {
  std::string name;
  std::function<void(SmallModel&)> nodes;
  std::function<double(double)> of;
  int opset = 13;
};

void PrintTo(const Imported& imported, std::ostream* out) { *out << imported.name; }

class ImportedActivations : public testing::TestWithParam<Imported> {};

TEST_P(ImportedActivations, AreThoseOfTheirFormulas) {
  SmallModel bare(GetParam().opset);
  SmallModel activated(GetParam().opset);
  GetParam().nodes(activated);
  Net shape;
  shape.input = {3, 8, 8};
  NamedTensor images = drawn_images(shape, 2);
  for (float& value : images.values) value *= 8.0F;  // to both sides of all limits
  constexpr std::size_t kMaps = 4 * 6 * 6;
  pass_on(bare, kMaps);
  pass_on(activated, kMaps);
  const std::vector<float> x = outputs_of(parse_onnx(bare.bytes(), "bare.onnx", "bare"), images);
  const std::vector<float> y = outputs_of(parse_onnx(activated.bytes(), "activated.onnx", "activated"), images);
  ASSERT_EQ(x.size(), y.size());
  EXPECT_LT(*std::ranges::min_element(x), -6.5F);
  EXPECT_GT(*std::ranges::max_element(x), 6.5F);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], GetParam().of(static_cast<double>(x[i])), 2e-5) << "of " << x[i];
  }
}

double hard_sigmoid(double x, double alpha) { return std::clamp(alpha * x + 0.5, 0.0, 1.0); }
double gelu_by_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double mish(double x) { return x * std::tanh(std::log1p(std::exp(x))); }
double normal(double x) { return 0.5 * (1.0 + std::erf(x / std::sqrt(2.0))); }

Imported one_node(const std::string& type, std::function<double(double)> of, int opset = 13) {
  return {type, [type](SmallModel& m) { m.node(type, {m.last}); }, std::move(of), opset};
}

INSTANTIATE_TEST_SUITE_P(
    Nodes, ImportedActivations,
    testing::Values(
        one_node("Elu", [](double x) { return x > 0 ? x : std::expm1(x); }),
        one_node("Selu", [](double x) { return 1.05070102 * (x > 0 ? x : 1.67326319 * std::expm1(x)); }),
        one_node("Softplus", [](double x) { return std::log1p(std::exp(x)); }),
        one_node("HardSigmoid", [](double x) { return hard_sigmoid(x, 0.2); }),
        one_node(
            "HardSwish", [](double x) { return x * hard_sigmoid(x, 1.0 / 6.0); }, 14),
        one_node(
            "Gelu", [](double x) { return x * normal(x); }, 20),
        one_node("Mish", mish, 18),
        Imported{"Celu", [](SmallModel& m) { SmallModel::set_number(m.node("Celu", {m.last}), "alpha", 0.5F); },
                 [](double x) { return x > 0 ? x : 0.5 * std::expm1(2.0 * x); }},
        Imported{"GeluByTanh",
                 [](SmallModel& m) { SmallModel::set_text(m.node("Gelu", {m.last}), "approximate", "tanh"); },
                 gelu_by_tanh, 20},
        Imported{"MishOfParts",
                 [](SmallModel& m) {
                   const std::string maps = m.last;
                   m.node("Softplus", {maps});
                   m.node("Tanh", {m.last});
                   m.node("Mul", {maps, m.last});
                 },
                 mish},
        Imported{"GeluByTanhOfPowers",  // as PyTorch's newer exporter writes it
                 [](SmallModel& m) {
                   const std::string maps = m.last;
                   m.number("three", 3.0F), m.number("part", 0.044715F), m.number("one", 1.0F);
                   m.number("root", std::sqrt(2.0F / std::numbers::pi_v<float>)), m.number("half", 0.5F);
                   m.node("Pow", {maps, "three"});
                   m.node("Mul", {"part", m.last});
                   m.node("Add", {maps, m.last});
                   m.node("Mul", {m.last, "root"});
                   m.node("Tanh", {m.last});
                   const std::string sum = m.node("Add", {m.last, "one"}).output(0);
                   m.node("Mul", {"half", maps});
                   m.node("Mul", {m.last, sum});
                 },
                 gelu_by_tanh},
        Imported{"GeluByTanhOfProducts",  // and its older one
                 [](SmallModel& m) {
                   const std::string maps = m.last;
                   m.number("part", 0.044715F), m.number("one", 1.0F), m.number("half", 0.5F);
                   m.number("root", std::sqrt(2.0F / std::numbers::pi_v<float>));
                   m.node("Mul", {maps, maps});
                   m.node("Mul", {m.last, maps});
                   m.node("Mul", {"part", m.last});
                   m.node("Add", {maps, m.last});
                   m.node("Mul", {"root", m.last});
                   m.node("Tanh", {m.last});
                   m.node("Add", {m.last, "one"});
                   m.node("Mul", {maps, m.last});
                   m.node("Mul", {"half", m.last});
                 },
                 gelu_by_tanh},
        Imported{"Relu6",
                 [](SmallModel& m) {
                   m.number("zero", 0.0F), m.number("six", 6.0F);
                   m.node("Clip", {m.last, "zero", "six"});
                 },
                 [](double x) { return std::clamp(x, 0.0, 6.0); }},
        Imported{"ClipFromOneSide",
                 [](SmallModel& m) {
                   m.number("high", 1.5F);
                   m.node("Clip", {m.last, "", "high"});
                 },
                 [](double x) { return std::min(x, 1.5); }},
        Imported{"ClipByAttributes",
                 [](SmallModel& m) {
                   auto& clip = m.node("Clip", {m.last});
                   SmallModel::set_number(clip, "min", -2.0F);
                   SmallModel::set_number(clip, "max", 3.0F);
                 },
                 [](double x) { return std::clamp(x, -2.0, 3.0); }, 10},
        Imported{"SiluOfParts",
                 [](SmallModel& m) {
                   const std::string maps = m.last;
                   m.node("Sigmoid", {maps});
                   m.node("Mul", {maps, m.last});
                 },
                 [](double x) { return x / (1.0 + std::exp(-x)); }},
        Imported{"HardSwishOfParts",
                 [](SmallModel& m) {
                   const std::string maps = m.last;
                   m.number("three", 3.0F), m.number("zero", 0.0F), m.number("six", 6.0F);
                   m.node("Add", {maps, "three"});
                   m.node("Clip", {m.last, "zero", "six"});
                   m.node("Div", {m.last, "six"});
                   m.node("Mul", {maps, m.last});
                 },
                 [](double x) { return x * hard_sigmoid(x, 1.0 / 6.0); }},
        Imported{"GeluOfParts",
                 [](SmallModel& m) {
                   const std::string maps = m.last;
                   m.number("root", std::sqrt(2.0F)), m.number("one", 1.0F), m.number("half", 0.5F);
                   m.node("Div", {maps, "root"});
                   m.node("Erf", {m.last});
                   m.node("Add", {m.last, "one"});
                   m.node("Mul", {maps, m.last});
                   m.node("Mul", {m.last, "half"});
                 },
                 [](double x) { return x * normal(x); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace convoy
