// Tests constants that import computes from several others, against loops in this file.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/nets/idioms.hpp"

namespace convoy {
namespace {

/// Nodes that make a constant of 4x1x1 numbers, and these numbers.
struct Folded {
  std::string name;
  std::function<void(SmallModel&)> nodes;
  std::function<std::vector<float>(SmallModel&)> by_hand;
};

void PrintTo(const Folded& folded, std::ostream* out) { *out << folded.name; }

/// The outputs of a model that adds a constant to its maps.
std::vector<float> sums(SmallModel& m, const std::string& maps, const std::string& constant) {
  m.node("Add", {maps, constant});
  pass_on(m, 144);
  Net shape;
  shape.input = {3, 8, 8};
  return outputs_of(parse_onnx(m.bytes(), "fold.onnx", "fold"), drawn_images(shape, 2));
}

class OnnxFolds : public testing::TestWithParam<Folded> {};

TEST_P(OnnxFolds, AreThoseOfLoops) {
  SmallModel computed;
  const std::string maps = computed.last;
  GetParam().nodes(computed);
  const std::vector<float> numbers = GetParam().by_hand(computed);
  const std::vector<float> got = sums(computed, maps, computed.last);

  SmallModel given;
  given.constant("numbers", {4, 1, 1});
  for (int i = 0; i < 4; ++i) {
    given.tensor("numbers").set_float_data(i, numbers[i]);
  }
  const std::vector<float> expected = sums(given, given.last, "numbers");
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
}

/// Reduces a constant of 4x3x1x2 along its second axis and its last.
void reduce(SmallModel& m, const std::string& type) {
  m.constant("all", {4, 3, 1, 2});
  auto& node = m.node(type, {"all"});
  SmallModel::set(node, "axes", {1, -1});
  SmallModel::set(node, "keepdims", {0});
  m.integers("extents", {4, 1, 1});
  m.node("Reshape", {m.last, "extents"});
}

template <class Step>
std::vector<float> by_sixes(SmallModel& m, double first, Step step) {
  const std::vector<float> all = m.values("all");
  std::vector<float> made;
  for (std::size_t i = 0; i < 4; ++i) {
    double result = first;
    for (std::size_t k = 0; k < 6; ++k) result = step(result, static_cast<double>(all[6 * i + k]));
    made.push_back(static_cast<float>(result));
  }
  return made;
}

void constants(SmallModel& m, const std::string& type, const std::vector<std::string>& names) {
  for (const std::string& name : names) m.constant(name, {4, 1, 1});
  m.node(type, names);
}

/// What an operator makes of the constants "a", "b" and "c".
std::vector<float> of_three(SmallModel& m, const std::function<float(float, float, float)>& by_hand) {
  std::vector<float> made;
  for (std::size_t i = 0; i < 4; ++i) made.push_back(by_hand(m.values("a")[i], m.values("b")[i], m.values("c")[i]));
  return made;
}

INSTANTIATE_TEST_SUITE_P(
    Reductions, OnnxFolds,
    testing::Values(
        Folded{"Sum", [](SmallModel& m) { reduce(m, "ReduceSum"); },
               [](SmallModel& m) { return by_sixes(m, 0.0, std::plus<>()); }},
        Folded{"Mean", [](SmallModel& m) { reduce(m, "ReduceMean"); },
               [](SmallModel& m) { return by_sixes(m, 0.0, [](double a, double b) { return a + b / 6.0; }); }},
        Folded{"Product", [](SmallModel& m) { reduce(m, "ReduceProd"); },
               [](SmallModel& m) { return by_sixes(m, 1.0, std::multiplies<>()); }},
        Folded{"Largest", [](SmallModel& m) { reduce(m, "ReduceMax"); },
               [](SmallModel& m) { return by_sixes(m, -2.0, [](double a, double b) { return std::max(a, b); }); }},
        Folded{"Least", [](SmallModel& m) { reduce(m, "ReduceMin"); },
               [](SmallModel& m) { return by_sixes(m, 2.0, [](double a, double b) { return std::min(a, b); }); }},
        Folded{"IntegersAlongAnAxis",
               [](SmallModel& m) {
                 m.integers("twelve", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
                 m.integers("rows", {4, 3}), m.integers("extents", {4, 1, 1});
                 m.node("Reshape", {"twelve", "rows"});
                 SmallModel::set(m.node("ReduceMin", {m.last}), "axes", {1});
                 SmallModel::set(m.node("Cast", {m.last}), "to", {1});
                 m.node("Reshape", {m.last, "extents"});
               },
               [](SmallModel&) {
                 return std::vector<float>{1, 4, 7, 10};
               }}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    OfSeveral, OnnxFolds,
    testing::Values(
        Folded{"Sum",
               [](SmallModel& m) {
                 constants(m, "Sum", {"a", "b", "c"});
               },
               [](SmallModel& m) { return of_three(m, [](float a, float b, float c) { return a + b + c; }); }},
        Folded{"Mean",
               [](SmallModel& m) {
                 constants(m, "Mean", {"a", "b", "c"});
               },
               [](SmallModel& m) { return of_three(m, [](float a, float b, float c) { return (a + b + c) / 3.0F; }); }},
        Folded{"Largest",
               [](SmallModel& m) {
                 constants(m, "Max", {"a", "b", "c"});
               },
               [](SmallModel& m) {
                 return of_three(m, [](float a, float b, float c) { return std::max({a, b, c}); });
               }},
        Folded{"OneAlone", [](SmallModel& m) { constants(m, "Min", {"a"}); },
               [](SmallModel& m) { return m.values("a"); }},
        Folded{"PowerOfAnInteger",
               [](SmallModel& m) {
                 m.integer("two", 2);
                 m.constant("a", {4, 1, 1});
                 m.node("Pow", {"a", "two"});
               },
               [](SmallModel& m) {
                 std::vector<float> made = m.values("a");
                 for (float& each : made) each *= each;
                 return made;
               }},
        Folded{"RemainderOfFloats",
               [](SmallModel& m) {
                 m.number("third", 0.3F);
                 m.constant("a", {4, 1, 1});
                 SmallModel::set(m.node("Mod", {"a", "third"}), "fmod", {1});
               },
               [](SmallModel& m) {
                 std::vector<float> made = m.values("a");
                 for (float& each : made) each = std::fmod(each, 0.3F);
                 return made;
               }}),
    [](const auto& test) { return test.param.name; });

/// A model that adds 3, -2 or as many to all maps, as a tensor of the type.
std::vector<float> plus_integer(onnx::TensorProto::DataType type, std::int64_t number) {
  SmallModel m;
  const std::string maps = m.last;
  m.integer("number", number);
  auto& tensor = m.tensor("number");
  tensor.set_data_type(type);
  if (type == onnx::TensorProto::UINT32 || type == onnx::TensorProto::UINT64) {
    tensor.add_uint64_data(static_cast<std::uint64_t>(number));
    tensor.clear_int64_data();
  } else if (type != onnx::TensorProto::INT64) {
    tensor.add_int32_data(static_cast<std::int32_t>(number));
    tensor.clear_int64_data();
  }
  SmallModel::set(m.node("Cast", {"number"}), "to", {1});
  return sums(m, maps, m.last);
}

TEST(OnnxTensors, OfEveryIntegerTypeHoldTheSame) {
  const std::vector<float> expected = plus_integer(onnx::TensorProto::INT64, 3);
  for (const auto type :
       {onnx::TensorProto::INT8, onnx::TensorProto::INT16, onnx::TensorProto::INT32, onnx::TensorProto::UINT8,
        onnx::TensorProto::UINT16, onnx::TensorProto::UINT32, onnx::TensorProto::UINT64}) {
    EXPECT_EQ(plus_integer(type, 3), expected) << onnx::TensorProto::DataType_Name(type);
  }
  EXPECT_EQ(plus_integer(onnx::TensorProto::INT16, -2), plus_integer(onnx::TensorProto::INT64, -2));
}

TEST(OnnxTensors, OfOtherTypesAreRefusedByName) {
  const auto message = [](int type, std::int64_t number) -> std::string {
    try {
      plus_integer(static_cast<onnx::TensorProto::DataType>(type), number);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(onnx::TensorProto::COMPLEX64, 3), testing::HasSubstr("tensor number is of type COMPLEX64; "));
  EXPECT_THAT(message(26, 3), testing::HasSubstr("tensor number is of the type with the number 26; expected float"));
  EXPECT_THAT(message(onnx::TensorProto::UINT64, -1), testing::HasSubstr("tensor number is of type UINT64; expected"));
}

}  // namespace
}  // namespace convoy
