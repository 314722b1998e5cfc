// Tests values of imported nets against loops in this file, and data that lie beside the model.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>

#include "core/error.hpp"
#include "tests/nets/idioms.hpp"
#include "tests/support/files.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

constexpr int kImages = 2;

/// Values (images, channels, rows, columns).
struct Maps {
  int channels = 0;
  int rows = 0;
  int columns = 0;
  std::vector<float> values = std::vector<float>(static_cast<std::size_t>(kImages * channels * rows * columns));

  float& at(int n, int c, int y, int x) {
    return values[static_cast<std::size_t>(((n * channels + c) * rows + y) * columns + x)];
  }
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
        sum += static_cast<double>(w[static_cast<std::size_t>((f * 3 + c) * 9 + i)]) *
               static_cast<double>(from.at(n, c, y + i / 3, x + i % 3));
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

Maps relu(Maps maps) {
  for (float& value : maps.values) value = std::max(value, 0.0F);
  return maps;
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
    values[static_cast<std::size_t>(((n * maps.rows + y) * maps.columns + x) * maps.channels + c)] =
        maps.at(n, c, y, x);
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

TEST(OnnxNotices, TellThatABatchNormWasFolded) {
  SmallModel m;
  flat(m);
  add_batch_norm(m, 5);
  EXPECT_THAT(parse_onnx(m.bytes(), "values.onnx", "values").notices,
              testing::ElementsAre(testing::HasSubstr("is folded into the dense layer node3")));
}

// ---- data beside the model -----------------------------------------------------------------------------------------

/// A model whose weights "w" are in a file of its folder.
class OnnxBeside : public testing::Test {
 protected:
  OnnxBeside() {
    flat(model);
    const std::vector<float> values = model.values("w");
    Bytes bytes(16 + values.size() * sizeof(float));
    std::memcpy(bytes.data() + 16, values.data(), bytes.size() - 16);
    write_file(folder.path() + "/w.data", bytes);
    tensor.clear_float_data();
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    set("location", "w.data");
    set("offset", "16");
    set("length", std::to_string(bytes.size() - 16));
  }
  void set(const std::string& key, const std::string& value) {
    for (auto& entry : *tensor.mutable_external_data()) {
      if (entry.key() == key) return entry.set_value(value);
    }
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  ImportedNet imported() {
    const std::string bytes = model.bytes();
    write_file(folder.path() + "/model.onnx", {bytes.begin(), bytes.end()});
    return import_onnx(folder.path() + "/model.onnx", "model");
  }
  void expect_refused(const std::string& says) {
    EXPECT_THAT([&] { imported(); },
                testing::ThrowsMessage<Error>(testing::AllOf(testing::HasSubstr("tensor"), testing::HasSubstr(says))));
  }

  TemporaryFolder folder;
  SmallModel model;
  onnx::TensorProto& tensor = model.tensor("w");
};

TEST_F(OnnxBeside, AreRead) { EXPECT_EQ(imported().tensors.at(0).values, SmallModel().values("w")); }

TEST_F(OnnxBeside, MustBeInTheFolder) {
  for (const char* place : {"../w.data", "/etc/hostname", "a/../../w.data", ""}) {
    set("location", place);
    expect_refused("outside of the model's folder");
  }
  const TemporaryFolder other;
  write_file(other.path() + "/w.data", Bytes(448));
  fs::create_symlink(other.path() + "/w.data", folder.path() + "/link");
  set("location", "link");
  expect_refused("outside of the model's folder");
}

TEST_F(OnnxBeside, MustBeThere) {
  set("location", "nobody.data");
  expect_refused("not in the folder");
  fs::create_directory(folder.path() + "/inside");
  set("location", "inside");
  expect_refused("not a file");
}

TEST_F(OnnxBeside, MustBeWhole) {
  set("offset", "20");
  expect_refused("cut off");
  set("offset", "18446744073709551615");
  expect_refused("cut off");
  set("offset", "-4");
  expect_refused("not a number");
  set("offset", "16");
  set("length", "428");
  expect_refused("its extents need 432");
}

TEST_F(OnnxBeside, MustNotBeShared) {
  for (int i = 0; i < 4; ++i) {
    auto& copy = *model.model.mutable_graph()->add_initializer();
    copy = model.tensor("w");
    copy.set_name("w" + std::to_string(i));
  }
  expect_refused("share bytes");
}

TEST_F(OnnxBeside, AreNotReadOfBytes) {
  EXPECT_THAT([&] { parse_onnx(model.bytes(), "bytes.onnx", "bytes"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("has its data in another file")));
}

}  // namespace
}  // namespace convoy
