// Tests the import of models with several outputs, and of models in their form for training.

#include "tests/nets/refusals.hpp"

namespace convoy {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

void add_output(SmallModel& m, const std::string& name, const std::vector<int>& extents = {}) {
  auto& output = *m.model.mutable_graph()->add_output();
  output.set_name(name);
  auto& type = *output.mutable_type()->mutable_tensor_type();
  for (const int extent : extents) type.mutable_shape()->add_dim()->set_dim_value(extent);
}

/// The mean of each map, and a dense layer of `units` units, whose weights have the name `weights`.
std::string head(SmallModel& m, const std::string& maps, const std::string& weights, int units) {
  m.constant(weights, {4, units});
  m.node("GlobalAveragePool", {maps});
  m.node("Flatten", {m.last});
  return m.node("Gemm", {m.last, weights}).output(0);
}

/// A model with two heads: the side one on the maps of the first convolution, the main one behind a second convolution.
struct TwoHeads {
  SmallModel m;
  std::string side;
  std::string main;

  explicit TwoHeads(int units_of_side = 5) {
    const std::string maps = m.node("Relu", {m.last}).output(0);
    side = head(m, maps, "side_weights", units_of_side);
    m.constant("u", {4, 4, 3, 3});
    main = head(m, m.node("Conv", {maps, "u"}).output(0), "main_weights", 5);
    add_output(m, side, {1, units_of_side});
  }
  ImportedNet imported(const std::vector<std::string>& outputs = {}) {
    m.last = main;
    return parse_onnx(m.bytes(), "heads.onnx", "heads", outputs);
  }
  std::string message(const std::vector<std::string>& outputs = {}) {
    try {
      imported(outputs);
    } catch (const Error& error) {
      return error.what();
    }
    return "imported";
  }
};

std::vector<float> outputs_for_images(const ImportedNet& net) {
  return outputs_of(net, drawn_images(parse_net(net.yaml, "heads"), 2));
}

std::size_t losses_of(const ImportedNet& net) { return cut(parse_net(net.yaml, "heads")).heads.size(); }

TEST(OnnxOutputs, EachHasALoss) {
  TwoHeads both;
  const ImportedNet net = both.imported();
  EXPECT_EQ(losses_of(net), 2);
  EXPECT_THAT(net.notices, ElementsAre(HasSubstr("the main loss reads output " + both.main + ", and side_loss")));
  const ImportedNet main = both.imported({both.main});
  EXPECT_EQ(losses_of(main), 1);
  EXPECT_THAT(main.notices, testing::IsEmpty());
  EXPECT_EQ(outputs_for_images(net), outputs_for_images(main)) << "the first output is the main one";
}

TEST(OnnxOutputs, AreTakenInTheOrderOfTheOption) {
  TwoHeads both;
  const std::vector<float> side = outputs_for_images(both.imported({both.side}));
  EXPECT_NE(side, outputs_for_images(both.imported({both.main})));
  const ImportedNet net = both.imported({both.side, both.main});
  EXPECT_EQ(losses_of(net), 2);
  EXPECT_EQ(outputs_for_images(net), side);
}

TEST(OnnxOutputs, OfTheSameNumbersHaveOneLoss) {
  TwoHeads both;
  add_output(both.m, both.m.node("Softmax", {both.main}).output(0));
  const ImportedNet net = both.imported();
  EXPECT_EQ(losses_of(net), 2) << "the third output is the softmax of the first";
  EXPECT_FALSE(net.softmax);
}

TEST(OnnxOutputs, ThatAreNotTakenMayDependOnAnything) {
  TwoHeads both;
  add_output(both.m, both.m.node("TopK", {both.main}).output(0));
  EXPECT_THAT(both.message(), AllOf(HasSubstr("(TopK)"), HasSubstr("The model has the outputs " + both.main),
                                    HasSubstr(both.side + " (1x5)"), HasSubstr("--output NAME")));
  EXPECT_EQ(losses_of(both.imported({both.main})), 1);
}

TEST(OnnxOutputs, OfOtherClassesAreListed) {
  TwoHeads both(3);
  EXPECT_THAT(both.message(),
              AllOf(HasSubstr("heads.onnx: all losses of a net compare with the same classes, but output " + both.main +
                              " has 5 numbers, and output " + both.side + " has 3"),
                    HasSubstr("The model has the outputs " + both.main + ", " + both.side + " (1x3); --output NAME")));
  EXPECT_EQ(losses_of(both.imported({both.side})), 1);
}

TEST(OnnxOutputs, ThatDoNotExistAreErrors) {
  TwoHeads both;
  EXPECT_THAT(both.message({"logits"}), HasSubstr("heads.onnx: the model has no output logits; choose among " +
                                                  both.main + ", " + both.side + " (1x5)"));
  EXPECT_THAT(both.message({both.main, both.main}), HasSubstr("is to be imported twice; name it once"));
  add_output(both.m, both.side);
  EXPECT_THAT(both.message(), HasSubstr("heads.onnx: the model has two outputs of the name " + both.side));
  for (int i = 0; i < 30; ++i) add_output(both.m, "more" + std::to_string(i));
  both.m.model.mutable_graph()->mutable_output(2)->set_name("another");
  EXPECT_THAT(both.message({"logits"}), AllOf(HasSubstr("more16 and 13 more"), testing::Not(HasSubstr("more17"))));
  for (int i = 30; i < 100; ++i) add_output(both.m, "more" + std::to_string(i));
  EXPECT_THAT(both.message(), HasSubstr("heads.onnx: the model has 103 outputs, but a net at most 100 losses"));
  both.m.model.mutable_graph()->clear_output();
  EXPECT_THAT([&] { parse_onnx(both.m.model.SerializeAsString(), "heads.onnx", "heads"); },
              testing::ThrowsMessage<Error>(HasSubstr("heads.onnx: the model has no output")));
}

/// A batch norm as PyTorch's old exporter writes it, with training=TrainingMode.TRAINING if `in_training` is set.
ImportedNet trained(int opset, bool in_training) {
  SmallModel m(opset);
  for (const char* name : {"scale", "shift", "mean", "variance"}) m.constant(name, {4});
  for (float& each : *m.tensor("variance").mutable_float_data()) each = 1.5F + each;
  auto& norm = m.node("BatchNormalization", {m.last, "scale", "shift", "mean", "variance"});
  if (in_training) {
    if (opset >= 14) SmallModel::set(norm, "training_mode", {1});
    norm.add_output("running_mean"), norm.add_output("running_variance");
  }
  flat(m);
  return parse_onnx(m.bytes(), "trained.onnx", "trained");
}

TEST(OnnxTrainingForm, KeepsTheRunningAveragesOfBatchNorms) {
  for (const int opset : {13, 14}) {
    const ImportedNet net = trained(opset, true);
    const ImportedNet plain = trained(opset, false);
    EXPECT_THAT(net.notices, ElementsAre(HasSubstr("the model is in its form for training"))) << opset;
    EXPECT_THAT(plain.notices, testing::IsEmpty()) << opset;
    EXPECT_EQ(net.yaml, plain.yaml);
    EXPECT_EQ(outputs_for_images(net), outputs_for_images(plain));
  }
}

}  // namespace
}  // namespace convoy
