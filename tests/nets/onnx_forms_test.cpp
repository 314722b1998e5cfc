// Tests that forms in which exporters write the same net are imported as the same net: shape arithmetic, padding,
// global pooling, functions, and constants that several nodes share.

#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "tests/nets/idioms.hpp"

namespace convoy {
namespace {

using Change = std::function<void(SmallModel&)>;

/// Two ways to write a net. Both follow the convolution of a SmallModel.
struct Form {
  std::string name;
  Change written;
  Change plain;
  int opset = 13;
  float most = 0.0F;  ///< the largest difference of their outputs
};

void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

std::vector<float> outputs_with(const Change& change, int opset) {
  SmallModel model(opset);
  change(model);
  const ImportedNet imported = parse_onnx(model.bytes(), "form.onnx", "form");
  return outputs_of(imported, drawn_images(parse_net(imported.yaml, "form"), 2));
}

class OnnxForms : public testing::TestWithParam<Form> {};

TEST_P(OnnxForms, GiveTheOutputsOfThePlainForm) {
  const Form& form = GetParam();
  const std::vector<float> got = outputs_with(form.written, form.opset);
  const std::vector<float> expected = outputs_with(form.plain, 13);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], form.most) << i;
}

Change reshaped_to(const std::vector<std::int64_t>& shape, bool zero_is_zero = false) {
  return [shape, zero_is_zero](SmallModel& m) {
    m.integers("shape", shape);
    auto& node = m.node("Reshape", {m.last, "shape"});
    if (zero_is_zero) SmallModel::set(node, "allowzero", {1});
    dense(m, 144);
  };
}

Change reduced(const std::string& type, const std::vector<int>& axes, int keeps, bool as_input) {
  return [=](SmallModel& m) {
    const std::vector<std::int64_t> list(axes.begin(), axes.end());
    if (as_input) m.integers("axes", list);
    auto& node = m.node(type, as_input ? std::vector<std::string>{m.last, "axes"} : std::vector<std::string>{m.last});
    if (!as_input) SmallModel::set(node, "axes", axes);
    SmallModel::set(node, "keepdims", {keeps});
    if (keeps == 1) m.node("Flatten", {m.last});
    dense(m, 4);
  };
}

void mean(SmallModel& m) {
  m.node("GlobalAveragePool", {m.last});
  m.node("Flatten", {m.last});
  dense(m, 4);
}

void maximum(SmallModel& m) {
  SmallModel::set(m.node("MaxPool", {m.last}), "kernel_shape", {6, 6});
  m.node("Flatten", {m.last});
  dense(m, 4);
}

void padded_conv(SmallModel& m) {
  m.constant("u", {2, 4, 4, 4});
  SmallModel::set(m.node("Conv", {m.last, "u"}), "pads", {1, 1, 0, 2});
  m.node("Flatten", {m.last});
  dense(m, 48);
}

void two_leaky(SmallModel& m) {
  for (int i = 0; i < 2; ++i) SmallModel::set_number(m.node("LeakyRelu", {m.last}), "alpha", 0.25F);
  flat(m);
}

/// Two convolutions that share their weights; a constant is folded into one of them only.
void shared(SmallModel& m) {
  m.constant("s", {4, 4, 1, 1});
  m.number("two", 2.0F);
  const std::string from = m.last;
  m.node("Conv", {from, "s"});
  const std::string doubled = m.node("Mul", {m.last, "two"}).output(0);
  m.node("Conv", {from, "s"});
  m.node("Add", {m.last, doubled});
  flat(m);
}

void not_shared(SmallModel& m) {
  m.constant("s", {4, 4, 1, 1});
  const std::string from = m.last;
  m.node("Conv", {from, "s"});
  const std::string first = m.last;
  m.node("Conv", {from, "s"});
  const std::string second = m.last;
  m.node("Conv", {from, "s"});
  m.node("Sum", {first, second, m.last});
  flat(m);
}

INSTANTIATE_TEST_SUITE_P(
    Written, OnnxForms,
    testing::Values(Form{"View", view, flat},
                    Form{"ViewOfFreeBatch", [](SmallModel& m) { m.free_batch(), view(m); }, flat},
                    Form{"ComputedView", [](SmallModel& m) { m.free_batch(), computed_view(m); }, flat},
                    Form{"OpenImages", reshaped_to({-1, 144}), flat}, Form{"OneImage", reshaped_to({1, 144}), flat},
                    Form{"CopiedImages", reshaped_to({0, -1}), flat},
                    Form{"ZeroIsZero", reshaped_to({1, -1}, true), flat, 18},
                    Form{"FlattenBehindOnes",
                         [](SmallModel& m) {
                           m.node("GlobalAveragePool", {m.last});
                           m.integers("order", {1, 1, 4, 1});
                           m.node("Reshape", {m.last, "order"});
                           SmallModel::set(m.node("Flatten", {m.last}), "axis", {-2});
                           dense(m, 4);
                         },
                         mean},
                    Form{"FlattenAtZero",
                         [](SmallModel& m) {
                           SmallModel::set(m.node("Flatten", {m.last}), "axis", {0});
                           dense(m, 144);
                         },
                         flat},
                    Form{"FlattenFromTheEnd",
                         [](SmallModel& m) {
                           SmallModel::set(m.node("Flatten", {m.last}), "axis", {-3});
                           dense(m, 144);
                         },
                         flat, 25},
                    Form{"Expanded", expanded, flat},
                    Form{"ExpandedFreeBatch", [](SmallModel& m) { m.free_batch(), expanded(m); }, flat},
                    Form{"PaddedByConstants", padded_by_constants, padded_conv},
                    Form{"PaddedByAxes",
                         [](SmallModel& m) {
                           m.integers("pads", {1, 1, 0, 2});
                           m.integers("axes", {2, -1});
                           m.number("value", 0.0F);
                           m.node("Pad", {m.last, "pads", "value", "axes"});
                           m.constant("u", {2, 4, 4, 4});
                           m.node("Conv", {m.last, "u"});
                           m.node("Flatten", {m.last});
                           dense(m, 48);
                         },
                         padded_conv, 18},
                    Form{"PaddedTwice",
                         [](SmallModel& m) {
                           m.integers("one", {0, 0, 1, 0, 0, 0, 0, 1});
                           m.integers("other", {0, 0, 0, 1, 0, 0, 0, 1});
                           m.node("Pad", {m.last, "one"});
                           m.node("Identity", {m.last});
                           m.node("Pad", {m.last, "other"});
                           m.constant("u", {2, 4, 4, 4});
                           m.node("Conv", {m.last, "u"});
                           m.node("Flatten", {m.last});
                           dense(m, 48);
                         },
                         padded_conv},
                    Form{"MeanKept", reduced("ReduceMean", {2, 3}, 1, false), mean},
                    Form{"MeanTakenOut", reduced("ReduceMean", {-1, -2}, 0, false), mean},
                    Form{"MeanOfInput", reduced("ReduceMean", {2, 3}, 1, true), mean, 18},
                    Form{"MeanOfInputTakenOut", reduced("ReduceMean", {3, 2}, 0, true), mean, 28},
                    Form{"MeanOfRowsThenColumns",
                         [](SmallModel& m) {
                           SmallModel::set(m.node("ReduceMean", {m.last}), "axes", {2});
                           auto& columns = m.node("ReduceMean", {m.last});
                           SmallModel::set(columns, "axes", {3});
                           SmallModel::set(columns, "keepdims", {0});
                           m.node("Flatten", {m.last});
                           dense(m, 4);
                         },
                         mean, 13, 1e-5F},
                    Form{"MaximumKept", reduced("ReduceMax", {2, 3}, 1, false), maximum},
                    Form{"MaximumOfInputTakenOut", reduced("ReduceMax", {-2, -1}, 0, true), maximum, 20},
                    Form{"GlobalMaxPool",
                         [](SmallModel& m) {
                           m.node("GlobalMaxPool", {m.last});
                           m.node("Flatten", {m.last});
                           dense(m, 4);
                         },
                         maximum},
                    Form{"SqueezedTwice",
                         [](SmallModel& m) {
                           m.node("GlobalAveragePool", {m.last});
                           m.integers("last", {-1});
                           m.node("Squeeze", {m.last, "last"});
                           m.node("Squeeze", {m.last, "last"});
                           dense(m, 4);
                         },
                         mean},
                    Form{"MatMulAndAdd",
                         [](SmallModel& m) {
                           m.node("Flatten", {m.last});
                           m.constant("v", {144, 5});
                           m.constant("b", {5});
                           m.node("MatMul", {m.last, "v"});
                           m.node("Add", {"b", m.last});
                         },
                         [](SmallModel& m) {
                           m.node("Flatten", {m.last});
                           m.constant("v", {144, 5});
                           m.constant("b", {5});
                           m.node("Gemm", {m.last, "v", "b"});
                         }},
                    Form{"ClipOfPositives",
                         [](SmallModel& m) {
                           m.number("low", 0.0F);
                           m.node("Clip", {m.last, "low"});
                           flat(m);
                         },
                         [](SmallModel& m) { m.node("Relu", {m.last}), flat(m); }},
                    Form{"AsStrided",
                         [](SmallModel& m) {
                           m.node("GlobalAveragePool", {m.last});
                           m.integers("all", {-1}), m.integers("places", {0, 1, 2, 3});
                           auto& places = m.tensor("places");
                           places.clear_dims();
                           for (const int extent : {1, 4, 1, 1}) places.add_dims(extent);
                           m.node("Reshape", {m.last, "all"});
                           m.node("Gather", {m.last, "places"});
                           m.node("Flatten", {m.last});
                           dense(m, 4);
                         },
                         [](SmallModel& m) {
                           m.node("GlobalAveragePool", {m.last});
                           m.node("Flatten", {m.last});
                           dense(m, 4);
                         }},
                    Form{"PReluOfOneSlope",
                         [](SmallModel& m) {
                           m.number("slope", 0.25F);
                           m.node("PRelu", {m.last, "slope"});
                           m.node("PRelu", {m.last, "slope"});
                           flat(m);
                         },
                         two_leaky},
                    Form{"NothingDone",
                         [](SmallModel& m) {
                           m.number("one", 1.0F);
                           m.number("zero", 0.0F);
                           m.node("Relu", {m.last});
                           m.node("Identity", {m.last});
                           SmallModel::set(m.node("Cast", {m.last}), "to", {1});
                           m.node("Mul", {m.last, "one"});
                           m.node("Add", {"zero", m.last});
                           m.node("Div", {m.last, "one"});
                           m.node("Sub", {m.last, "zero"});
                           m.node("Dropout", {m.last, "zero"});
                           m.integers("no_pads", {0, 0, 0, 0, 0, 0, 0, 0});
                           m.node("Pad", {m.last, "no_pads"});
                           m.integers("begin", {0, 0});
                           m.integers("end", {4, std::numeric_limits<std::int64_t>::max()});
                           m.integers("axes", {1, 2});
                           m.node("Slice", {m.last, "begin", "end", "axes"});
                           SmallModel::set(m.node("Transpose", {m.last}), "perm", {0, 1, 2, 3});
                           flat(m);
                         },
                         [](SmallModel& m) { m.node("Relu", {m.last}), flat(m); }},
                    Form{"DividedAndSubtracted",
                         [](SmallModel& m) {
                           m.number("half", 0.5F);
                           m.constant("c", {4, 1, 1});
                           m.node("Div", {m.last, "half"});
                           m.node("Sub", {m.last, "c"});
                           flat(m);
                         },
                         [](SmallModel& m) {
                           m.number("two", 2.0F);
                           m.constant("c", {4, 1, 1});
                           for (float& each : *m.tensor("c").mutable_float_data()) each = -each;
                           m.node("Mul", {m.last, "two"});
                           m.node("Add", {m.last, "c"});
                           flat(m);
                         },
                         13, 1e-6F},
                    Form{"Functions", functions, two_leaky}, Form{"SharedWeights", shared, not_shared, 13, 1e-5F},
                    Form{"ValuesOfConstants",
                         [](SmallModel& m) {
                           auto& node = m.node("Constant", {});
                           auto& list = *node.add_attribute();
                           list.set_name("value_ints");
                           list.set_type(onnx::AttributeProto::INTS);
                           list.add_ints(0);
                           list.add_ints(-1);
                           m.node("Reshape", {"node1_out", m.last});
                           dense(m, 144);
                         },
                         flat}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace convoy
