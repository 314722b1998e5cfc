// Tests values of imported nets against loops in this file.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/nets/idioms.hpp"

namespace convoy {
namespace {

constexpr int kImages = 2;

/// Values (images, channels, rows, columns).
struct Maps {
  int channels = 0;
  int rows = 0;
  int columns = 0;
  std::vector<float> values = std::vector<float>(static_cast<std::size_t>(kImages * channels * rows * columns));

  float& at(int n, int c, int y, int x) { return values[((n * channels + c) * rows + y) * columns + x]; }
  template <class Visit>
  void each(Visit visit) {
    for (int n = 0; n < kImages; ++n) {
      for (int c = 0; c < channels; ++c) {
        for (int y = 0; y < rows; ++y) {
          for (int x = 0; x < columns; ++x) visit(n, c, y, x);
        }
      }
    }
  }
};

/// What the convolution of a SmallModel makes of images.
Maps convolved(SmallModel& m, const NamedTensor& images) {
  const std::vector<float> w = m.values("w");
  Maps from{3, 8, 8, images.values};
  Maps to{4, 6, 6};
  to.each([&](int n, int f, int y, int x) {
    double sum = 0.0;
    for (int c = 0; c < 3; ++c) {
      for (int i = 0; i < 9; ++i) {
        sum += static_cast<double>(w[(f * 3 + c) * 9 + i]) * static_cast<double>(from.at(n, c, y + i / 3, x + i % 3));
      }
    }
    to.at(n, f, y, x) = static_cast<float>(sum);
  });
  return to;
}

/// A model's nodes, and what they make of the maps of the convolution.
struct Computed {
  std::string name;
  std::function<void(SmallModel&)> nodes;
  std::function<std::vector<float>(SmallModel&, Maps)> by_hand;
  int opset = 13;
};

void PrintTo(const Computed& computed, std::ostream* out) { *out << computed.name; }

class OnnxValues : public testing::TestWithParam<Computed> {};

TEST_P(OnnxValues, AreThoseOfLoops) {
  SmallModel m(GetParam().opset);
  GetParam().nodes(m);
  Net shape;
  shape.input = {3, 8, 8};
  const NamedTensor images = drawn_images(shape, kImages);
  const std::vector<float> expected = GetParam().by_hand(m, convolved(m, images));
  pass_on(m, expected.size() / kImages);
  const std::vector<float> got = outputs_of(parse_onnx(m.bytes(), "values.onnx", "values"), images);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-5) << i;
}

/// Sets what is below 0 to 0, in the channels from `first` on.
Maps relu(Maps maps, int first = 0) {
  maps.each([&](int n, int c, int y, int x) {
    if (c >= first) maps.at(n, c, y, x) = std::max(maps.at(n, c, y, x), 0.0F);
  });
  return maps;
}

/// The channels of these numbers.
std::vector<float> reordered(Maps maps, const std::vector<int>& channels) {
  Maps to = maps;
  to.each([&](int n, int c, int y, int x) { to.at(n, c, y, x) = maps.at(n, channels[c], y, x); });
  return to.values;
}

/// Multiplies maps by the sigmoid of their means.
void gate(SmallModel& m, bool channels_last) {
  if (channels_last) SmallModel::set(m.node("Transpose", {m.last}), "perm", {0, 2, 3, 1});
  const std::string maps = m.last;
  SmallModel::set(m.node("ReduceMean", {maps}), "axes",
                  channels_last ? std::vector<int>{1, 2} : std::vector<int>{2, 3});
  m.node("Sigmoid", {m.last});
  m.node("Mul", {m.last, maps});
  if (channels_last) SmallModel::set(m.node("Transpose", {m.last}), "perm", {0, 3, 1, 2});
}

std::vector<float> gated(Maps maps) {
  Maps to = maps;
  to.each([&](int n, int c, int y, int x) {
    double sum = 0.0;
    for (int i = 0; i < maps.rows * maps.columns; ++i) sum += maps.at(n, c, i / maps.columns, i % maps.columns);
    const double mean = sum / (maps.rows * maps.columns);
    to.at(n, c, y, x) = static_cast<float>(maps.at(n, c, y, x) / (1.0 + std::exp(-mean)));
  });
  return to.values;
}

/// Pools windows of which `before` rows and columns may lie before the maps; elements outside of them have the value
/// `outside`, or do not count if it is NaN.
std::vector<float> pooled(Maps from, int kernel, int stride, int outputs, int before, float outside, bool average) {
  Maps to{from.channels, outputs, outputs};
  to.each([&](int n, int c, int y, int x) {
    double sum = 0.0;
    int count = 0;
    float top = -std::numeric_limits<float>::infinity();
    for (int i = 0; i < kernel * kernel; ++i) {
      const int row = y * stride - before + i / kernel;
      const int column = x * stride - before + i % kernel;
      const bool inside = row >= 0 && row < from.rows && column >= 0 && column < from.columns;
      const float value = inside ? from.at(n, c, row, column) : outside;
      if (std::isnan(value)) continue;
      sum += static_cast<double>(value);
      top = std::max(top, value);
      ++count;
    }
    to.at(n, c, y, x) = average ? static_cast<float>(sum / count) : top;
  });
  return to.values;
}

constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();

onnx::NodeProto& pool(SmallModel& m, const std::string& type, int kernel, int stride, bool up = false) {
  auto& node = m.node(type, {m.last});
  SmallModel::set(node, "kernel_shape", {kernel, kernel});
  SmallModel::set(node, "strides", {stride, stride});
  if (up) SmallModel::set(node, "ceil_mode", {1});
  return node;
}

void pad(SmallModel& m, float value) {
  m.integers("pads", {0, 0, 1, 1, 0, 0, 1, 1});
  m.number("filling", value);
  m.node("Pad", {m.last, "pads", "filling"});
}

/// (channels, rows, columns) in the order (rows, columns, channels).
std::vector<float> channels_last(Maps maps) {
  std::vector<float> values(maps.values.size());
  maps.each([&](int n, int c, int y, int x) {
    values[((n * maps.rows + y) * maps.columns + x) * maps.channels + c] = maps.at(n, c, y, x);
  });
  return values;
}

/// The dense layer "v" of 5 units without bias.
std::vector<float> through_dense(SmallModel& m, const std::vector<float>& values) {
  const std::vector<float> v = m.values("v");
  const std::size_t inputs = v.size() / 5;
  std::vector<float> to;
  for (std::size_t n = 0; n < values.size() / inputs; ++n) {
    for (std::size_t u = 0; u < 5; ++u) {
      double sum = 0.0;
      for (std::size_t i = 0; i < inputs; ++i) {
        sum += static_cast<double>(values[n * inputs + i]) * static_cast<double>(v[i * 5 + u]);
      }
      to.push_back(static_cast<float>(sum));
    }
  }
  return to;
}

void add_batch_norm(SmallModel& m, std::int64_t channels) {
  for (const char* name : {"scale", "shift", "mean", "variance"}) m.constant(name, {channels});
  for (float& each : *m.tensor("variance").mutable_float_data()) each = 1.5F + each;
  SmallModel::set_number(m.node("BatchNormalization", {m.last, "scale", "shift", "mean", "variance"}), "epsilon",
                         0.25F);
}

std::vector<float> normalised(SmallModel& m, std::vector<float> values, std::size_t inner) {
  const std::vector<float> scale = m.values("scale");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t c = i / inner % scale.size();
    values[i] = (values[i] - m.values("mean")[c]) / std::sqrt(m.values("variance")[c] + 0.25F) * scale[c] +
                m.values("shift")[c];
  }
  return values;
}

INSTANTIATE_TEST_SUITE_P(
    Nodes, OnnxValues,
    testing::Values(
        Computed{"PadOfZerosBehindRelu",
                 [](SmallModel& m) { m.node("Relu", {m.last}), pad(m, 0.0F), pool(m, "MaxPool", 3, 2); },
                 [](SmallModel&, const Maps& maps) { return pooled(relu(maps), 3, 2, 3, 1, 0.0F, false); }},
        Computed{"PadOfMinusInfinity",
                 [](SmallModel& m) { pad(m, -std::numeric_limits<float>::infinity()), pool(m, "MaxPool", 3, 1); },
                 [](SmallModel&, const Maps& maps) { return pooled(maps, 3, 1, 6, 1, kNothing, false); }},
        Computed{"PadOfTheLowestFloat",
                 [](SmallModel& m) {
                   pad(m, std::numeric_limits<float>::lowest());
                   SmallModel::set(pool(m, "MaxPool", 4, 2), "pads", {1, 1, 1, 1});
                 },
                 [](SmallModel&, const Maps& maps) { return pooled(maps, 4, 2, 4, 2, kNothing, false); }},
        Computed{"CeilModeAddsAWindow", [](SmallModel& m) { pool(m, "MaxPool", 3, 2, true); },
                 [](SmallModel&, const Maps& maps) { return pooled(maps, 3, 2, 3, 0, kNothing, false); }},
        Computed{"CeilModeIgnoresAWindowOutside", [](SmallModel& m) { pool(m, "MaxPool", 2, 3, true); },
                 [](SmallModel&, const Maps& maps) { return pooled(maps, 2, 3, 2, 0, kNothing, false); }},
        Computed{"CeilModeOfAverages", [](SmallModel& m) { pool(m, "AveragePool", 3, 2, true); },
                 [](SmallModel&, const Maps& maps) { return pooled(maps, 3, 2, 3, 0, kNothing, true); }},
        Computed{"CeilModeOfAveragesThatCountPadding",
                 [](SmallModel& m) { SmallModel::set(pool(m, "AveragePool", 3, 2, true), "count_include_pad", {1}); },
                 [](SmallModel&, const Maps& maps) { return pooled(maps, 3, 2, 3, 0, kNothing, true); }, 22},
        Computed{"AveragesThatCountPadding",
                 [](SmallModel& m) {
                   auto& node = pool(m, "AveragePool", 3, 2);
                   SmallModel::set(node, "pads", {1, 1, 1, 1});
                   SmallModel::set(node, "count_include_pad", {1});
                 },
                 [](SmallModel&, const Maps& maps) { return pooled(maps, 3, 2, 3, 1, 0.0F, true); }},
        Computed{"AveragesOfPad", [](SmallModel& m) { pad(m, 0.0F), pool(m, "AveragePool", 3, 1); },
                 [](SmallModel&, const Maps& maps) { return pooled(maps, 3, 1, 6, 1, 0.0F, true); }},
        Computed{"Gate", [](SmallModel& m) { gate(m, false); },
                 [](SmallModel&, const Maps& maps) { return gated(maps); }},
        Computed{"GateChannelsLast", [](SmallModel& m) { gate(m, true); },
                 [](SmallModel&, const Maps& maps) { return gated(maps); }},
        Computed{"ProductOfMaps",
                 [](SmallModel& m) {
                   const std::string maps = m.last;
                   m.node("Relu", {maps}), m.node("Mul", {m.last, maps});
                 },
                 [](SmallModel&, Maps maps) {
                   for (float& each : maps.values) each = std::max(each, 0.0F) * each;
                   return maps.values;
                 }},
        Computed{"SplitAndJoined",
                 [](SmallModel& m) {
                   m.integers("parts", {1, 3});
                   auto& split = m.node("Split", {m.last, "parts"});
                   SmallModel::set(split, "axis", {1});
                   split.add_output("more");
                   const std::string one = m.last;
                   m.node("Relu", {"more"});
                   SmallModel::set(m.node("Concat", {m.last, one}), "axis", {1});
                 },
                 [](SmallModel&, Maps maps) {
                   return reordered(relu(maps, 1), {1, 2, 3, 0});
                 }},
        Computed{"SplitEqually",
                 [](SmallModel& m) {
                   auto& split = m.node("Split", {m.last});
                   SmallModel::set(split, "axis", {1});
                   split.add_output("more");
                   SmallModel::set(m.node("Concat", {"more", m.last}), "axis", {-3});
                 },
                 [](SmallModel&, const Maps& maps) {
                   return reordered(maps, {2, 3, 0, 1});
                 }},
        Computed{"SlicesOfChannels",
                 [](SmallModel& m) {
                   const std::string maps = m.last;
                   m.integers("begin", {0}), m.integers("middle", {-2}), m.integers("end", {100}),
                       m.integers("axis", {1});
                   const std::string front = m.node("Slice", {maps, "begin", "middle", "axis"}).output(0);
                   m.node("Slice", {maps, "middle", "end", "axis"});
                   SmallModel::set(m.node("Concat", {m.last, front}), "axis", {1});
                 },
                 [](SmallModel&, const Maps& maps) {
                   return reordered(maps, {2, 3, 0, 1});
                 }},
        Computed{"Shuffled",
                 [](SmallModel& m) {
                   m.integers("groups", {0, 2, -1, 6, 6}), m.integers("back", {0, -1, 6, 6});
                   m.node("Reshape", {m.last, "groups"});
                   SmallModel::set(m.node("Transpose", {m.last}), "perm", {0, 2, 1, 3, 4});
                   m.node("Reshape", {m.last, "back"});
                 },
                 [](SmallModel&, const Maps& maps) {
                   return reordered(maps, {0, 2, 1, 3});
                 }},
        Computed{"GroupsAndBack",
                 [](SmallModel& m) {
                   m.integers("groups", {1, 2, 2, 6, 6}), m.integers("back", {1, 4, 6, 6});
                   m.node("Reshape", {m.last, "groups"});
                   m.node("Relu", {m.last});
                   m.node("Reshape", {m.last, "back"});
                 },
                 [](SmallModel&, const Maps& maps) { return relu(maps).values; }},
        Computed{"FlattenedChannelsLast",
                 [](SmallModel& m) {
                   SmallModel::set(m.node("Transpose", {m.last}), "perm", {0, 2, 3, 1});
                   m.integers("shape", {-1, 144});
                   m.node("Reshape", {m.last, "shape"});
                   dense(m, 144);
                 },
                 [](SmallModel& m, const Maps& maps) { return through_dense(m, channels_last(maps)); }},
        Computed{"MaximumChannelsLast",
                 [](SmallModel& m) {
                   SmallModel::set(m.node("Transpose", {m.last}), "perm", {0, 2, 3, 1});
                   auto& node = m.node("ReduceMax", {m.last});
                   SmallModel::set(node, "axes", {1, 2});
                   SmallModel::set(node, "keepdims", {0});
                   dense(m, 4);
                 },
                 [](SmallModel& m, const Maps& maps) {
                   return through_dense(m, pooled(maps, 6, 6, 1, 0, kNothing, false));
                 }},
        Computed{"BatchNormBehindDense", [](SmallModel& m) { flat(m), add_batch_norm(m, 5); },
                 [](SmallModel& m, const Maps& maps) { return normalised(m, through_dense(m, maps.values), 1); }},
        Computed{"BatchNormBehindActivationOfDense",
                 [](SmallModel& m) { flat(m), m.node("Tanh", {m.last}), add_batch_norm(m, 5); },
                 [](SmallModel& m, const Maps& maps) {
                   std::vector<float> values = through_dense(m, maps.values);
                   for (float& each : values) each = std::tanh(each);
                   return normalised(m, values, 1);
                 }},
        Computed{"ProductOfDenseLayers",
                 [](SmallModel& m) {
                   flat(m);
                   const std::string values = m.last;
                   m.node("Tanh", {values});
                   m.node("Mul", {values, m.last});
                 },
                 [](SmallModel& m, const Maps& maps) {
                   std::vector<float> values = through_dense(m, maps.values);
                   for (float& each : values) each *= std::tanh(each);
                   return values;
                 }},
        Computed{"BatchNormOfMeans",
                 [](SmallModel& m) {
                   m.node("GlobalAveragePool", {m.last});
                   m.node("Flatten", {m.last});
                   add_batch_norm(m, 4);
                   dense(m, 4);
                 },
                 [](SmallModel& m, const Maps& maps) {
                   return through_dense(m, normalised(m, pooled(maps, 6, 6, 1, 0, kNothing, true), 1));
                 }},
        Computed{"BatchNormOfMaps", [](SmallModel& m) { add_batch_norm(m, 4); },
                 [](SmallModel& m, const Maps& maps) { return normalised(m, maps.values, 36); }}),
    [](const auto& info) { return info.param.name; });

/// Training goes on with the norm.
TEST(OnnxValues, KeepTheBatchNormOfADenseLayer) {
  SmallModel m;
  flat(m);
  add_batch_norm(m, 5);
  const ImportedNet net = parse_onnx(m.bytes(), "values.onnx", "values");
  EXPECT_THAT(net.notices, testing::IsEmpty());
  EXPECT_THAT(net.yaml, testing::HasSubstr("type: batch_norm"));
  EXPECT_TRUE(cut(parse_net(net.yaml, "values")).is_dense(1));
}

}  // namespace
}  // namespace convoy
