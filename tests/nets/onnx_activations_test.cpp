// Computes the nodes that export writes for activations, by the definitions of the operators, and compares the results
// with the activations.

// Debian's headers of ONNX need the macros with which the library was built.
#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <gtest/gtest.h>
#include <onnx/checker.h>

#include <cmath>
#include <limits>
#include <map>

#include "kernels/host/activation.hpp"
#include "nets/graph/net.hpp"
#include "nets/onnx/onnx.hpp"
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

}  // namespace
}  // namespace convoy
