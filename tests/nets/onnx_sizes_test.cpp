// Tests imports of dilated convolutions and larger maps: values against loops in this file, and refusals.

#include <algorithm>
#include <cmath>

#include "tests/nets/made_maps.hpp"
#include "tests/nets/refusals.hpp"

namespace convoy {
namespace {

TEST(OnnxDilations, LeaveGapsBetweenWeights) {
  const auto nodes = [](SmallModel& m) {
    m.constant("u", {4, 2, 3, 3});
    auto& node = m.node("Conv", {m.last, "u"});
    SmallModel::set(node, "dilations", {2, 1}), SmallModel::set(node, "pads", {3, 1, 1, 1});
    SmallModel::set(node, "group", {2});
  };
  const std::vector<float> maps = plain_maps();
  const std::vector<float> u = numbers("u", 72);
  std::vector<float> expected;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const int image = static_cast<int>(i / kValues);
    const int filter = channel_of(i);
    const int row = static_cast<int>(i) / kSide % kSide;
    const int column = static_cast<int>(i) % kSide;
    double sum = 0.0;
    for (int tap = 0; tap < 18; ++tap) {
      const int channel = filter / 2 * 2 + tap / 9;
      const int y = row - 3 + 2 * (tap / 3 % 3);
      const int x = column - 1 + tap % 3;
      if (y < 0 || y >= kSide || x < 0 || x >= kSide) continue;
      const int at = ((image * kMaps + channel) * kSide + y) * kSide + x;
      sum += static_cast<double>(maps[static_cast<std::size_t>(at)]) * u[static_cast<std::size_t>(filter * 18 + tap)];
    }
    expected.push_back(static_cast<float>(sum));
  }
  expect_near(made_by(nodes), expected);
}

/// Maps of 12x18.
std::vector<float> enlarged(bool linear) {
  const std::vector<float> maps = plain_maps();
  const auto place = [&](int at, int factor) {
    const double found = linear ? (at + 0.5) / factor - 0.5 : std::floor(static_cast<double>(at) / factor);
    return std::clamp(found, 0.0, kSide - 1.0);
  };
  std::vector<float> expected;
  for (int i = 0; i < 2 * kMaps * 12 * 18; ++i) {
    const double y = place(i / 18 % 12, 2);
    const double x = place(i % 18, 3);
    double sum = 0.0;
    for (int p = 0; p < kSide * kSide; ++p) {
      const double weight = std::max(0.0, 1.0 - std::abs(y - p / kSide)) * std::max(0.0, 1.0 - std::abs(x - p % kSide));
      sum += weight * maps[static_cast<std::size_t>(i / (12 * 18) * kSide * kSide + p)];
    }
    expected.push_back(static_cast<float>(sum));
  }
  return expected;
}

void add_scales(SmallModel& m, const std::vector<float>& scales) {
  m.constant("scales", {static_cast<std::int64_t>(scales.size())});
  for (std::size_t i = 0; i < scales.size(); ++i) m.tensor("scales").set_float_data(static_cast<int>(i), scales[i]);
}

onnx::NodeProto& resize(SmallModel& m, const std::vector<float>& scales, const std::string& mode,
                        const std::string& places) {
  add_scales(m, scales);
  auto& node = m.node("Resize", {m.last, "", "scales"});
  SmallModel::set_text(node, "mode", mode);
  SmallModel::set_text(node, "coordinate_transformation_mode", places);
  return node;
}

TEST(OnnxSizes, OfNearestElements) {
  const std::vector<float> expected = enlarged(false);
  const auto nearest = [](const std::string& places, const std::string& rounding) {
    return [=](SmallModel& m) {
      SmallModel::set_text(resize(m, {1, 1, 2, 3}, "nearest", places), "nearest_mode", rounding);
    };
  };
  expect_near(made_by(nearest("asymmetric", "floor"), 13, 864), expected);
  expect_near(made_by(nearest("half_pixel", "round_prefer_floor"), 13, 864), expected);
  expect_near(made_by(nearest("half_pixel", "round_prefer_ceil"), 18, 864), expected);
  for (const bool any_number : {false, true}) {
    expect_near(made_by(
                    [&](SmallModel& m) {
                      if (any_number) m.free_batch();
                      m.integers("sizes", {1, 4, 12, 18});
                      m.node("Resize", {m.last, "", "", "sizes"});
                    },
                    13, 864),
                expected);
  }
  expect_near(made_by(
                  [](SmallModel& m) {
                    add_scales(m, {1, 1, 2, 3}), m.node("Upsample", {m.last, "scales"});
                  },
                  9, 864),
              expected);
  expect_near(made_by(
                  [](SmallModel& m) {
                    add_scales(m, {1, 1, 2, 3}), m.node("Resize", {m.last, "scales"});
                  },
                  10, 864),
              expected);
}

TEST(OnnxSizes, OfLinesBetweenCentres) {
  const std::vector<float> expected = enlarged(true);
  for (const char* places : {"half_pixel", "pytorch_half_pixel"}) {
    expect_near(made_by([&](SmallModel& m) { resize(m, {1, 1, 2, 3}, "linear", places); }, 13, 864), expected);
  }
  expect_near(made_by(
                  [&](SmallModel& m) {
                    SmallModel::set(resize(m, {3, 2}, "linear", "half_pixel"), "axes", {3, 2});
                  },
                  18, 864),
              expected);
}

TEST(OnnxSizes, OfFactorsOfOneChangeNothing) {
  expect_near(made_by([](SmallModel& m) { resize(m, {1, 1, 1, 1}, "cubic", "align_corners"); }), plain_maps());
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, OnnxRefusals,
    testing::Values(
        Refusal{"OfImages",
                [](SmallModel& m) {
                  m.free_batch();
                  m.integers("sizes", {2, 4, 12, 18});
                  m.node("Resize", {m.last, "", "", "sizes"});
                },
                "(Resize): it makes 2 images, but the number of images is free in this model"},
        Refusal{"DilatedPooling",
                [](SmallModel& m) {
                  auto& node = m.node("MaxPool", {m.last});
                  SmallModel::set(node, "kernel_shape", {2, 2}), SmallModel::set(node, "dilations", {2, 2});
                },
                "node2 (MaxPool): dilations is 2 2; Convoy has no dilated pooling"},
        Refusal{"DilationBeyondTheMaps",
                [](SmallModel& m) {
                  m.constant("u", {4, 4, 3, 3});
                  SmallModel::set(m.node("Conv", {m.last, "u"}), "dilations", {3, 3});
                },
                "node2 (Conv): its kernel 7x7 does not fit into its input of 4x6x6"},
        Refusal{"SmallerMaps",
                [](SmallModel& m) {
                  resize(m, {1, 1, 0.5F, 0.5F}, "nearest", "asymmetric");
                },
                "node2 (Resize): it scales images, channels, rows and columns by 1, 1, 0.5, 0.5"},
        Refusal{"HalfAsLarge",
                [](SmallModel& m) {
                  resize(m, {1, 1, 1.5F, 1.5F}, "linear", "half_pixel");
                },
                "whole factors"},
        Refusal{"MoreChannels",
                [](SmallModel& m) {
                  resize(m, {1, 2, 2, 2}, "nearest", "asymmetric");
                },
                "node2 (Resize): it scales images or channels"},
        Refusal{"AlignedCorners",
                [](SmallModel& m) {
                  resize(m, {1, 1, 2, 2}, "linear", "align_corners");
                },
                "node2 (Resize): it finds elements by align_corners;"},
        Refusal{"ElementsOfOtherPlaces",
                [](SmallModel& m) {
                  SmallModel::set_text(resize(m, {1, 1, 2, 2}, "nearest", "half_pixel"), "nearest_mode", "floor");
                },
                "node2 (Resize): it finds elements by half_pixel and floor;"},
        Refusal{"Cubic",
                [](SmallModel& m) {
                  resize(m, {1, 1, 2, 2}, "cubic", "half_pixel");
                },
                "node2 (Resize): its mode is cubic"},
        Refusal{"LinearOfOldUpsample",
                [](SmallModel& m) {
                  add_scales(m, {1, 1, 2, 2});
                  SmallModel::set_text(m.node("Upsample", {m.last, "scales"}), "mode", "linear");
                },
                "node2 (Upsample): it finds elements by asymmetric;", 9}),
    refusal_name);

}  // namespace
}  // namespace convoy
