// Tests imports of dilated convolutions and maps of other sizes: values against loops in this file, and refusals.

#include <algorithm>
#include <array>
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
      sum += static_cast<double>(maps[at]) * u[filter * 18 + tap];
    }
    expected.push_back(static_cast<float>(sum));
  }
  expect_near(made_by(nodes), expected);
}

/// Windows of 2x3 elements that are 3 rows and 2 columns apart, with a row and a column of padding in front.
TEST(OnnxDilations, LeaveGapsBetweenElementsOfAWindow) {
  const auto nodes = [](SmallModel& m) {
    auto& node = m.node("MaxPool", {m.last});
    SmallModel::set(node, "kernel_shape", {2, 3}), SmallModel::set(node, "dilations", {3, 2});
    SmallModel::set(node, "pads", {1, 1, 0, 1}), SmallModel::set(node, "strides", {1, 2});
  };
  constexpr int kRows = 4;
  constexpr int kColumns = 2;
  const std::vector<float> maps = plain_maps();
  std::vector<float> expected;
  for (int i = 0; i < 2 * kMaps * kRows * kColumns; ++i) {
    float best = -1e9F;
    for (int tap = 0; tap < 6; ++tap) {
      const int y = i / kColumns % kRows - 1 + 3 * (tap / 3);
      const int x = i % kColumns * 2 - 1 + 2 * (tap % 3);
      if (y < 0 || y >= kSide || x < 0 || x >= kSide) continue;
      const int at = (i / (kRows * kColumns) * kSide + y) * kSide + x;
      best = std::max(best, maps[at]);
    }
    expected.push_back(best);
  }
  expect_near(made_by(nodes, 13, static_cast<std::size_t>(kMaps * kRows * kColumns)), expected);
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
      sum += weight * maps[i / (12 * 18) * kSide * kSide + p];
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

/// Where an axis of `extent` elements becomes one of `result` elements.
struct OnnxAxis {
  int extent;
  int result;
  double scale;

  /// The place of an element in the smaller or larger row, as the specification of Resize has it.
  double place(const std::string& how, int at) const {
    if (how == "asymmetric") return at / scale;
    if (how == "align_corners") return result > 1 ? at * (extent - 1.0) / (result - 1.0) : 0.0;
    if (how == "pytorch_half_pixel" && result == 1) return 0.0;
    return (at + 0.5) / scale - 0.5;
  }
  bool scales_to_a_whole_number() const { return result == 1 || std::abs(extent * scale - result) < 1e-6; }
  /// The weight of element `i` in element `at` of the result. `rounding` is empty for lines between elements.
  double weight(const std::string& how, const std::string& rounding, int at, int i) const {
    const double found = place(how, at);
    if (rounding.empty()) return std::max(0.0, 1.0 - std::abs(std::clamp(found, 0.0, extent - 1.0) - i));
    constexpr double kTiny = 1e-9;  // by which a computed place may miss a whole number or the middle
    double nearest = std::floor(found + kTiny);
    if (rounding == "ceil") nearest = std::ceil(found - kTiny);
    if (rounding == "round_prefer_floor") nearest = std::ceil(found - 0.5 - kTiny);
    if (rounding == "round_prefer_ceil") nearest = std::floor(found + 0.5 + kTiny);
    return std::clamp(nearest, 0.0, extent - 1.0) == i ? 1.0 : 0.0;
  }
};

std::vector<float> resized(const OnnxAxis& rows, const OnnxAxis& columns, const std::string& how,
                           const std::string& rounding) {
  const std::vector<float> maps = plain_maps();
  std::vector<float> expected;
  for (int map = 0; map < 2 * kMaps; ++map) {
    for (int y = 0; y < rows.result; ++y) {
      for (int x = 0; x < columns.result; ++x) {
        double sum = 0.0;
        for (int p = 0; p < kSide * kSide; ++p) {
          sum += rows.weight(how, rounding, y, p / kSide) * columns.weight(how, rounding, x, p % kSide) *
                 maps[map * kSide * kSide + p];
        }
        expected.push_back(static_cast<float>(sum));
      }
    }
  }
  return expected;
}

TEST(OnnxSizes, OfAnyScale) {
  for (const std::string how : {"asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"}) {
    for (const std::string rounding : {"", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}) {
      // 0.6 of 6 rows are 3, whose places follow from 0.6; 2.5 times 6 columns are 15.
      for (const auto& [down, across] : {std::pair{0.5, 2.5}, {0.6, 0.34}, {1.75, 1.0}, {0.17, 0.5}}) {
        SCOPED_TRACE(fmt::format("{} {} {} {}", how, rounding, down, across));
        const OnnxAxis rows{kSide, static_cast<int>(kSide * down + 1e-6), down};
        const OnnxAxis columns{kSide, static_cast<int>(kSide * across + 1e-6), across};
        // ONNX and PyTorch differ in the places that other extents have between corners, so import refuses them.
        if (how == "align_corners" && !(rows.scales_to_a_whole_number() && columns.scales_to_a_whole_number()))
          continue;
        const auto nodes = [&](SmallModel& m) {
          auto& node = resize(m, {1, 1, static_cast<float>(down), static_cast<float>(across)},
                              rounding.empty() ? "linear" : "nearest", how);
          if (!rounding.empty()) SmallModel::set_text(node, "nearest_mode", rounding);
        };
        expect_near(made_by(nodes, 13, static_cast<std::size_t>(kMaps * rows.result * columns.result)),
                    resized(rows, columns, how, rounding));
      }
    }
  }
}

TEST(OnnxSizes, OfGivenExtents) {
  for (const std::string how : {"half_pixel", "align_corners", "asymmetric"}) {
    const OnnxAxis rows{kSide, 7, 7.0 / kSide};
    const OnnxAxis columns{kSide, 5, 5.0 / kSide};
    const auto nodes = [&](SmallModel& m) {
      m.free_batch();
      m.integers("sizes", {1, 4, 7, 5});
      auto& node = m.node("Resize", {m.last, "", "", "sizes"});
      SmallModel::set_text(node, "mode", "linear");
      SmallModel::set_text(node, "coordinate_transformation_mode", how);
    };
    expect_near(made_by(nodes, 13, 140), resized(rows, columns, how, ""));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, OnnxRefusals,
    testing::Values(Refusal{"OfImages",
                            [](SmallModel& m) {
                              m.free_batch();
                              m.integers("sizes", {2, 4, 12, 18});
                              m.node("Resize", {m.last, "", "", "sizes"});
                            },
                            "(Resize): it makes 2 images, but the number of images is free in this model"},
                    Refusal{"DilatedAverage",
                            [](SmallModel& m) {
                              auto& node = m.node("AveragePool", {m.last});
                              SmallModel::set(node, "kernel_shape", {2, 2}), SmallModel::set(node, "dilations", {2, 2});
                            },
                            "node2 (AveragePool): dilations is 2 2; Convoy's average pooling has no dilation", 19},
                    Refusal{"DilatedPoolingOfPadding",
                            [](SmallModel& m) {
                              auto& node = m.node("MaxPool", {m.last});
                              SmallModel::set(node, "kernel_shape", {2, 2}), SmallModel::set(node, "dilations", {7, 2});
                              SmallModel::set(node, "pads", {1, 0, 3, 0});
                            },
                            "node2 (MaxPool): dilations is 7 2, so that a window has no element of its input of 4x6x6"},
                    Refusal{"DilationBeyondTheMaps",
                            [](SmallModel& m) {
                              m.constant("u", {4, 4, 3, 3});
                              SmallModel::set(m.node("Conv", {m.last, "u"}), "dilations", {3, 3});
                            },
                            "node2 (Conv): its kernel 7x7 does not fit into its input of 4x6x6"},
                    Refusal{"NoRows",
                            [](SmallModel& m) {
                              resize(m, {1, 1, 0.1F, 0.5F}, "nearest", "asymmetric");
                            },
                            "node2 (Resize): it scales 6 rows or columns by 0.1"},
                    Refusal{"ScaleOfZero",
                            [](SmallModel& m) {
                              resize(m, {1, 1, 0.0F, 0.5F}, "nearest", "asymmetric");
                            },
                            "node2 (Resize): it scales images, channels, rows and columns by 1, 1, 0, 0.5"},
                    Refusal{"HugeMaps",
                            [](SmallModel& m) {
                              resize(m, {1, 1, 1e5F, 1e5F}, "nearest", "asymmetric");
                            },
                            "node2 (Resize): its output would have"},
                    Refusal{"MoreChannels",
                            [](SmallModel& m) {
                              resize(m, {1, 2, 2, 2}, "nearest", "asymmetric");
                            },
                            "node2 (Resize): it scales images or channels"},
                    Refusal{"CornersThatAreNoWholeNumbersApart",
                            [](SmallModel& m) {
                              resize(m, {1, 1, 0.6F, 0.6F}, "linear", "align_corners");
                            },
                            "node2 (Resize): its scale makes 6 rows or columns 3.6"},
                    Refusal{"CroppedMaps",
                            [](SmallModel& m) {
                              resize(m, {1, 1, 2, 2}, "linear", "tf_crop_and_resize");
                            },
                            "node2 (Resize): it finds elements by tf_crop_and_resize;"},
                    Refusal{"KeptAspect",
                            [](SmallModel& m) {
                              m.integers("sizes", {1, 4, 12, 18});
                              SmallModel::set_text(m.node("Resize", {m.last, "", "", "sizes"}),
                                                   "keep_aspect_ratio_policy", "not_larger");
                            },
                            "node2 (Resize): keep_aspect_ratio_policy is not_larger", 18},
                    Refusal{"Cubic",
                            [](SmallModel& m) {
                              resize(m, {1, 1, 2, 2}, "cubic", "half_pixel");
                            },
                            "node2 (Resize): its mode is cubic"}),
    refusal_name);

/// onnxruntime divides places by the scale in single precision. Of 1 / 0.6, rounding would make the fourth element 4.
TEST(OnnxExport, GivesResizedMapsScalesByWhichDivisionFindsTheElements) {
  for (const auto& [numerator, denominator, extent] : {std::array{5, 3, 19}, {10, 7, 22}, {10, 3, 9}, {25, 11, 14}}) {
    const Net net = parse_net(fmt::format("name: n\ninput: {{channels: 1, height: 32, width: 32}}\nlayers:\n"
                                          "  - {{name: c, type: conv, filters: 1, kernel: 1, bias: false}}\n"
                                          "  - {{name: r, type: resize, size: {0}, step: {1}, start: 0}}\n"
                                          "  - {{name: g, type: global_average_pool}}\n"
                                          "  - {{name: d, type: dense, units: 2}}\n"
                                          "  - {{name: l, type: softmax_cross_entropy}}\n",
                                          extent, static_cast<double>(numerator) / denominator),
                              "resized.yaml");
    onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromString(to_onnx(
        net, {{"c.weight", {1, 1, 1, 1}, {1.0F}}, {"d.weight", {2, 1}, {1.0F, 2.0F}}, {"d.bias", {2}, {0, 0}}})));
    float scale = 0.0F;
    for (const auto& each : model.graph().initializer()) {
      if (each.name() == "r.scales") scale = each.float_data(2);
    }
    ASSERT_GT(scale, 0.0F);
    EXPECT_EQ(static_cast<int>(32.0F * scale), extent);
    for (int i = 0; i < extent; ++i) {
      EXPECT_EQ(static_cast<int>(static_cast<float>(i) / scale), i * numerator / denominator)
          << i << " by " << numerator;
    }
  }
}

}  // namespace
}  // namespace convoy
