// Tests that models which no net represents are refused with every reason at once, and that nothing is imported with
// other values.

#include <cmath>
#include <limits>

#include "tests/nets/refusals.hpp"

namespace convoy {
namespace {

TEST_P(OnnxRefusals, TellNodeAndReason) {
  SmallModel model(GetParam().opset);
  GetParam().nodes(model);
  EXPECT_THAT(message_of(model),
              testing::AllOf(testing::HasSubstr("refused.onnx"), testing::HasSubstr(GetParam().says)));
}

void reshape_to(SmallModel& m, const std::vector<std::int64_t>& shape) {
  m.integers("shape", shape);
  m.node("Reshape", {m.last, "shape"});
}

void pad_by(SmallModel& m, const std::vector<std::int64_t>& pads, float value) {
  m.integers("pads", pads);
  m.number("filling", value);
  m.node("Pad", {m.last, "pads", "filling"});
}

void pool_by(SmallModel& m, const std::string& type, int kernel) {
  SmallModel::set(m.node(type, {m.last}), "kernel_shape", {kernel, kernel});
}

INSTANTIATE_TEST_SUITE_P(
    WrongValues, OnnxRefusals,
    testing::Values(Refusal{"ConstantOfFlattenedMaps",
                            [](SmallModel& m) {
                              m.constant("c", {144});
                              m.node("Flatten", {m.last});
                              m.node("Add", {m.last, "c"});
                            },
                            "node3 (Add): its constant has the shape 144"},
                    Refusal{"ConstantAlongColumns",
                            [](SmallModel& m) {
                              m.constant("u", {6, 4, 1, 1});
                              m.constant("c", {6});
                              m.node("Conv", {m.last, "u"});
                              m.node("Mul", {m.last, "c"});
                            },
                            "node3 (Mul): its constant has the shape 6"},
                    Refusal{"ConstantOfAnAliasThatOthersRead",
                            [](SmallModel& m) {
                              m.number("two", 2.0F);
                              const std::string maps = m.last;
                              const std::string same = m.node("Identity", {maps}).output(0);
                              const std::string doubled = m.node("Mul", {same, "two"}).output(0);
                              m.node("Add", {maps, doubled});
                            },
                            "node3 (Mul): its constant can be folded only"},
                    Refusal{"ConstantBehindDropoutThatOthersRead",
                            [](SmallModel& m) {
                              m.number("two", 2.0F);
                              m.number("zero", 0.0F);
                              const std::string maps = m.last;
                              const std::string same = m.node("Dropout", {maps, "zero"}).output(0);
                              const std::string doubled = m.node("Mul", {same, "two"}).output(0);
                              m.node("Add", {maps, doubled});
                            },
                            "node3 (Mul): its constant can be folded only"},
                    Refusal{"ConstantOfRowsWhoseChannelsComeLast",
                            [](SmallModel& m) {
                              m.constant("u", {6, 4, 1, 1});
                              m.constant("c", {6, 1, 1});
                              m.node("Conv", {m.last, "u"});
                              SmallModel::set(m.node("Transpose", {m.last}), "perm", {0, 2, 3, 1});
                              m.node("Add", {m.last, "c"});
                            },
                            "node4 (Add): its constant has the shape 6x1x1"},
                    Refusal{"ConstantOfTheImages",
                            [](SmallModel& m) {
                              m.number("mean", 0.5F);
                              m.node("Sub", {"images", "mean"});
                            },
                            "node2 (Sub): it changes the images by a constant"},
                    Refusal{"SumOfListsOfOtherOrders",
                            [](SmallModel& m) {
                              const std::string maps = m.last;
                              const std::string list = m.node("Flatten", {maps}).output(0);
                              SmallModel::set(m.node("Transpose", {maps}), "perm", {0, 2, 3, 1});
                              m.node("Flatten", {m.last});
                              m.node("Add", {m.last, list});
                            },
                            "node5 (Add): its inputs have the shapes"},
                    Refusal{"PadOfZerosThatMayWin",
                            [](SmallModel& m) {
                              pad_by(m, {0, 0, 1, 1, 0, 0, 1, 1}, 0.0F), pool_by(m, "MaxPool", 3);
                            },
                            "node3 (MaxPool): a Pad before it pads with 0, which may be the largest"},
                    Refusal{"PadOfNegativesBehindRelu",
                            [](SmallModel& m) {
                              m.node("Relu", {m.last});
                              pad_by(m, {0, 0, 1, 1, 0, 0, 1, 1}, -1.0F), pool_by(m, "MaxPool", 3);
                            },
                            "node3 (Pad): it pads with -1"},
                    Refusal{"PadAsLargeAsTheKernel",
                            [](SmallModel& m) {
                              m.node("Relu", {m.last});
                              pad_by(m, {0, 0, 2, 2, 0, 0, 2, 2}, 0.0F), pool_by(m, "MaxPool", 2);
                            },
                            "node4 (MaxPool): its padding of 2 2 2 2"},
                    Refusal{"PadBeforeAveragesWithPaddingOfTheirOwn",
                            [](SmallModel& m) {
                              pad_by(m, {0, 0, 1, 1, 0, 0, 1, 1}, 0.0F), pool_by(m, "AveragePool", 3);
                              SmallModel::set(*m.model.mutable_graph()->mutable_node(2), "pads", {1, 1, 1, 1});
                            },
                            "node3 (AveragePool): a Pad comes before it, whose elements count"},
                    Refusal{"PadOfInfinityBeforeAverages",
                            [](SmallModel& m) {
                              pad_by(m, {0, 0, 1, 1, 0, 0, 1, 1}, -std::numeric_limits<float>::infinity());
                              pool_by(m, "AveragePool", 3);
                            },
                            "node3 (AveragePool): a Pad before it pads with -inf"},
                    Refusal{"WindowsBeyondCountedPadding",
                            [](SmallModel& m) {
                              pool_by(m, "AveragePool", 3);
                              onnx::NodeProto& pool = *m.model.mutable_graph()->mutable_node(1);
                              SmallModel::set(pool, "pads", {1, 1, 1, 1});
                              SmallModel::set(pool, "strides", {2, 2});
                              SmallModel::set(pool, "count_include_pad", {1});
                              SmallModel::set(pool, "ceil_mode", {1});
                            },
                            "node2 (AveragePool): its last windows reach beyond the padding"},
                    Refusal{"PadAtTheEnd",
                            [](SmallModel& m) {
                              pad_by(m, {0, 0, 1, 1, 0, 0, 1, 1}, 0.0F);
                            },
                            "in another form"},
                    Refusal{"PadOfInfinityBeforeConv",
                            [](SmallModel& m) {
                              pad_by(m, {0, 0, 1, 1, 0, 0, 1, 1}, -std::numeric_limits<float>::infinity());
                              m.constant("u", {4, 4, 3, 3});
                              m.node("Conv", {m.last, "u"});
                            },
                            "node3 (Conv): a Pad before it pads with -inf"},
                    Refusal{"PadByReflection",
                            [](SmallModel& m) {
                              m.integers("pads", {0, 0, 1, 1, 0, 0, 1, 1});
                              SmallModel::set_text(m.node("Pad", {m.last, "pads"}), "mode", "reflect");
                            },
                            "mode is reflect"},
                    Refusal{"RowsTakenForChannels",
                            [](SmallModel& m) {
                              reshape_to(m, {1, 6, 24, 1});
                              pool_by(m, "MaxPool", 2);
                            },
                            "node2 (Reshape): it changes the shape 1x4x6x6 to 1x6x24x1"},
                    Refusal{"OnesMovedBeforeMaps",
                            [](SmallModel& m) {
                              m.constant("u", {1, 4, 1, 1});
                              m.node("Conv", {m.last, "u"});
                              reshape_to(m, {1, 6, 1, 6});
                              pool_by(m, "MaxPool", 1);
                            },
                            "node4 (MaxPool): its input of 6x1x6 was reshaped from maps of 1x6x6"},
                    Refusal{"SoftmaxOverImages",
                            [](SmallModel& m) {
                              flat(m);
                              SmallModel::set(m.node("Softmax", {m.last}), "axis", {0});
                            },
                            "node4 (Softmax): it takes the softmax of axis 0"},
                    Refusal{"SoftmaxOfEachColumn", [](SmallModel& m) { m.node("Softmax", {m.last}); },
                            "node2 (Softmax): it takes the softmax of axis 3"},
                    Refusal{"MeanOverChannels",
                            [](SmallModel& m) {
                              SmallModel::set(m.node("ReduceMean", {m.last}), "axes", {1, 2, 3});
                            },
                            "node2 (ReduceMean): it reduces the axes 1,2,3"},
                    Refusal{"MeanOverAll", [](SmallModel& m) { m.node("ReduceMean", {m.last}); },
                            "it joins all images"},
                    Refusal{"BatchNormOfFlattenedMaps",
                            [](SmallModel& m) {
                              for (const char* name : {"a", "b", "c", "d"}) m.constant(name, {144});
                              m.node("Flatten", {m.last});
                              m.node("BatchNormalization", {m.last, "a", "b", "c", "d"});
                            },
                            "node3 (BatchNormalization): it normalises each element of flattened maps"},
                    Refusal{"ComputedTwice",
                            [](SmallModel& m) {
                              m.node("Relu", {m.last}).set_output(0, "node1_out");
                              m.last = "node1_out";
                            },
                            "computes node1_out twice"},
                    Refusal{"Indices",
                            [](SmallModel& m) {
                              pool_by(m, "MaxPool", 2);
                              m.model.mutable_graph()->mutable_node(1)->add_output("indices");
                              m.node("Cast", {"indices"});
                            },
                            "node2 (MaxPool): another node reads its second output"}),
    refusal_name);

INSTANTIATE_TEST_SUITE_P(
    Channels, OnnxRefusals,
    testing::Values(
        Refusal{"ProductOfOtherShapes",
                [](SmallModel& m) {
                  const std::string maps = m.last;
                  SmallModel::set(m.node("ReduceMean", {maps}), "axes", {2});
                  m.node("Mul", {maps, m.last});
                },
                "node3 (Mul): its inputs have the shapes 1x4x6x6 and 1x4x1x6"},
        Refusal{"GateOfColumns",
                [](SmallModel& m) {
                  const std::string maps = m.last;
                  auto& mean = m.node("ReduceMean", {maps});
                  SmallModel::set(mean, "axes", {2, 3});
                  SmallModel::set(mean, "keepdims", {0});
                  m.node("Mul", {maps, m.last});
                },
                "node3 (Mul): its inputs have the shapes 1x4x6x6 and 1x4"},
        Refusal{"SplitOfRows", [](SmallModel& m) { SmallModel::set(m.node("Split", {m.last}), "axis", {2}); },
                "node2 (Split): it splits axis 2 of 1x4x6x6"},
        Refusal{"SplitIntoMoreThanThereIs",
                [](SmallModel& m) {
                  m.integers("parts", {2, 3});
                  auto& split = m.node("Split", {m.last, "parts"});
                  SmallModel::set(split, "axis", {1});
                  split.add_output("more");
                },
                "node2 (Split): it splits 4 channels into 2, 3 for 2 outputs"},
        Refusal{"PartThatNothingReads",
                [](SmallModel& m) {
                  auto& split = m.node("Split", {m.last});
                  SmallModel::set(split, "axis", {1});
                  split.add_output("more");
                  m.node("Flatten", {m.last});
                  dense(m, 72);
                },
                "nothing reads channel 2 of its maps"},
        Refusal{"SliceOfNoChannels",
                [](SmallModel& m) {
                  for (const auto& [name, value] : {std::pair{"begin", 3}, {"end", -1}, {"axis", 1}})
                    m.integers(name, {value});
                  m.node("Slice", {m.last, "begin", "end", "axis"});
                },
                "node2 (Slice): it takes no channels"},
        Refusal{"EveryOtherChannel",
                [](SmallModel& m) {
                  for (const auto& [name, value] : {std::pair{"begin", 0}, {"end", 4}, {"axis", 1}, {"step", 2}})
                    m.integers(name, {value});
                  m.node("Slice", {m.last, "begin", "end", "axis", "step"});
                },
                "node2 (Slice): it takes 0 to 4 by 2 of axis 1"},
        Refusal{"SumOfTransposedGroups",
                [](SmallModel& m) {
                  reshape_to(m, {1, 2, 2, 6, 6});
                  const std::string groups = m.last;
                  SmallModel::set(m.node("Transpose", {groups}), "perm", {0, 2, 1, 3, 4});
                  m.node("Add", {groups, m.last});
                },
                "node4 (Add): a Transpose of groups of channels comes before it"},
        Refusal{"TransposedGroupsFlattened",
                [](SmallModel& m) {
                  reshape_to(m, {1, 2, 2, 6, 6});
                  SmallModel::set(m.node("Transpose", {m.last}), "perm", {0, 2, 1, 3, 4});
                  m.node("Flatten", {m.last});
                },
                "node4 (Flatten): it follows a Transpose of groups of channels"},
        Refusal{"TransposedGroupsAtTheEnd",
                [](SmallModel& m) {
                  reshape_to(m, {1, 2, 2, 6, 6});
                  SmallModel::set(m.node("Transpose", {m.last}), "perm", {0, 2, 1, 3, 4});
                },
                "in another form"},
        Refusal{"GroupsOfRows",
                [](SmallModel& m) {
                  reshape_to(m, {1, 4, 2, 3, 6});
                },
                "node2 (Reshape): it changes the shape 1x4x6x6 to 1x4x2x3x6"}),
    refusal_name);

INSTANTIATE_TEST_SUITE_P(
    Activations, OnnxRefusals,
    testing::Values(
        Refusal{"GeluBySomethingElse",
                [](SmallModel& m) { SmallModel::set_text(m.node("Gelu", {m.last}), "approximate", "sigmoid"); },
                "node2 (Gelu): it approximates the GELU by sigmoid"},
        Refusal{"CeluOfNoWidth", [](SmallModel& m) { SmallModel::set_number(m.node("Celu", {m.last}), "alpha", 0.0F); },
                "node2 (Celu): its alpha is 0"},
        Refusal{"ClipOfNothing",
                [](SmallModel& m) {
                  m.number("low", 2.0F), m.number("high", 2.0F);
                  m.node("Clip", {m.last, "low", "high"});
                },
                "node2 (Clip): it clips to 2 to 2"}),
    refusal_name);

TEST(OnnxRefused, AreAllListed) {
  SmallModel m;
  const std::string maps = m.last;
  m.node("Softsign", {maps});
  m.node("Relu", {m.last});  // is not blamed for what it reads
  m.node("Mul", {m.last, maps});
  const std::string first = m.last;
  const std::string again = m.node("Softsign", {maps}).output(0);
  const std::string largest = m.node("TopK", {maps, "w"}).output(0);
  m.node("Sum", {first, again, largest});
  EXPECT_EQ(message_of(m),
            "refused.onnx: 3 of the model's 7 nodes cannot be imported:\n"
            "nodes node2, node5 (Softsign): no layer of Convoy does this; docs/nets.md lists the operators that can be "
            "imported\n"
            "node node6 (TopK): a net's outputs are one score for each class; remove the node from the model's end");
}

/// A user who mends the first node of a chain should not meet the next one only then.
TEST(OnnxRefused, AreListedBehindOthersTooWhereNothingTakesThem) {
  SmallModel m;
  m.node("Softsign", {m.last});
  m.node("Relu", {m.last});
  m.node("Det", {m.last});
  m.node("CumSum", {m.last, "w"});
  EXPECT_THAT(message_of(m),
              testing::AllOf(testing::HasSubstr("3 of the model's 5 nodes"), testing::HasSubstr("node2 (Softsign)"),
                             testing::HasSubstr("node4 (Det)"), testing::HasSubstr("node5 (CumSum)")));
}

TEST(OnnxRefused, AreListedUpToALimit) {
  SmallModel m;
  const std::string maps = m.last;
  std::vector<std::string> all;
  for (int i = 0; i < 70; ++i) all.push_back(m.node("Softsign", {maps}).output(0));
  m.node("Sum", all);
  EXPECT_THAT(message_of(m), testing::AllOf(testing::HasSubstr("70 of the model's 72 nodes"),
                                            testing::HasSubstr("node51 and 20 more (Softsign)")));
}

}  // namespace
}  // namespace convoy
