// Ensembles as ONNX models: what the checker of ONNX says of them, and how their parts are joined. tests/programs runs
// them.

#include "nets/onnx/ensemble.hpp"

#include "tests/nets/small_model.hpp"
// The checker needs the macros that small_model.hpp defines.
#include <gmock/gmock.h>
#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include "core/random.hpp"
#include "model/checkpoint.hpp"
#include "tests/support/graph_net.hpp"

namespace convoy {
namespace {

std::vector<NamedTensor> part_tensors(const Net& net, std::uint64_t seed) {
  std::vector<NamedTensor> tensors = zero_tensors(cut(net));
  Random random(seed, 0);
  for (NamedTensor& tensor : tensors) {
    for (float& value : tensor.values) value = random.uniform(0.1F, 1.0F);
  }
  return tensors;
}

class OnnxEnsembles : public testing::TestWithParam<Combination> {
 protected:
  onnx::ModelProto model() const {
    const std::vector<NamedTensor> first = part_tensors(net_, 1);
    const std::vector<NamedTensor> second = part_tensors(other_, 2);
    onnx::ModelProto model;
    EXPECT_TRUE(
        model.ParseFromString(ensemble_to_onnx({{net_, first}, {other_, second}, {net_, second_of_net_}}, GetParam())));
    return model;
  }

  Net net_ = parse_net(kGraphNet, "graph.yaml", {"input.mean=[0.1,0.2]", "input.deviation=[0.3,0.4]"});
  Net other_ = parse_net(
      "name: other\ninput: {channels: 2, height: 9, width: 8, mean: 0.5, deviation: 0.25}\nlayers:\n"
      "  - {name: stem, type: conv, filters: 2, kernel: 3}\n  - {name: low, type: clip, high: 1}\n"
      "  - {name: out, type: dense, units: 3}\n  - {name: loss, type: softmax_cross_entropy}\n",
      "other.yaml");
  std::vector<NamedTensor> second_of_net_ = part_tensors(net_, 3);
};

TEST_P(OnnxEnsembles, AreModelsWithOneInputAndOneOutput) {
  onnx::ModelProto model = this->model();
  onnx::checker::check_model(model);
  ASSERT_EQ(model.graph().input_size(), 1);
  ASSERT_EQ(model.graph().output_size(), 1);
  EXPECT_EQ(model.graph().input(0).name(), "input");
  const std::map<Combination, std::string> names{
      {Combination::probabilities, "probabilities"}, {Combination::logits, "logits"}, {Combination::votes, "votes"}};
  EXPECT_EQ(model.graph().output(0).name(), names.at(GetParam()));
  // Shapes that do not fit anywhere would be found here.
  onnx::shape_inference::InferShapes(model);
  int inferred = 0;
  for (const onnx::ValueInfoProto& value : model.graph().value_info()) {
    if (value.name() != "member3.stem") continue;
    ++inferred;
    EXPECT_EQ(value.type().tensor_type().shape().dim(1).dim_value(), 6);
  }
  EXPECT_EQ(inferred, 1);
}

/// Each part has its own weights and its own scales, and reads the model's input through them alone.
TEST_P(OnnxEnsembles, KeepTheirPartsApart) {
  const onnx::ModelProto model = this->model();
  std::map<std::string, std::vector<float>> constants;
  for (const onnx::TensorProto& each : model.graph().initializer()) {
    EXPECT_TRUE(
        constants.emplace(each.name(), std::vector<float>(each.float_data().begin(), each.float_data().end())).second)
        << each.name();
  }
  EXPECT_THAT(constants.at("member1.mean"), testing::ElementsAre(0.1F, 0.2F));
  EXPECT_THAT(constants.at("member1.deviation"), testing::ElementsAre(0.3F, 0.4F));
  EXPECT_THAT(constants.at("member2.mean"), testing::ElementsAre(0.5F, 0.5F));
  EXPECT_THAT(constants.at("member3.mean"), testing::ElementsAre(0.1F, 0.2F));
  std::vector<std::string> readers;
  for (const onnx::NodeProto& node : model.graph().node()) {
    for (const std::string& input : node.input()) {
      if (input == "input") readers.push_back(node.name());
    }
  }
  EXPECT_THAT(readers, testing::ElementsAre("member1.centred", "member2.centred", "member3.centred"));
}

INSTANTIATE_TEST_SUITE_P(Ways, OnnxEnsembles,
                         testing::Values(Combination::probabilities, Combination::logits, Combination::votes),
                         [](const auto& info) { return std::to_string(static_cast<int>(info.param)); });

}  // namespace
}  // namespace convoy
