// Tests imports of dilated convolutions, norms of a sample, slopes of channels and larger maps: values against loops in this
// file, and refusals.

#include <algorithm>
#include <cmath>

#include "tests/nets/refusals.hpp"

namespace convoy {
namespace {

constexpr int kMaps = 4;  ///< of 6x6, which the convolution of a SmallModel makes of two images
constexpr int kSide = 6;
constexpr std::size_t kValues = 144;

using Nodes = std::function<void(SmallModel&)>;

ImportedNet imported_with(const Nodes& nodes, int opset, std::size_t values) {
  SmallModel m(opset);
  nodes(m);
  pass_on(m, values);
  return parse_onnx(m.bytes(), "norms.onnx", "norms");
}

/// What a model's nodes make of two images, as `values` values for each.
std::vector<float> made_by(const Nodes& nodes, int opset = 13, std::size_t values = kValues) {
  const ImportedNet net = imported_with(nodes, opset, values);
  return outputs_of(net, drawn_images(parse_net(net.yaml, "norms"), 2));
}

std::vector<float> plain_maps() {
  return made_by([](SmallModel&) {});
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-5) << i;
}

int channel_of(std::size_t i) { return static_cast<int>(i / (kSide * kSide)) % kMaps; }

/// Normalises sets of values: those of equal numbers. The factor and the term of a channel follow.
std::vector<float> normalised(const std::function<std::size_t(std::size_t)>& set_of, const std::vector<float>& factors,
                              const std::vector<float>& terms, double epsilon = 0.25) {
  std::vector<float> maps = plain_maps();
  std::vector<double> sums(maps.size()), squares(maps.size()), counts(maps.size());
  for (std::size_t i = 0; i < maps.size(); ++i) {
    sums[set_of(i)] += maps[i];
    squares[set_of(i)] += static_cast<double>(maps[i]) * maps[i];
    counts[set_of(i)] += 1.0;
  }
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const std::size_t set = set_of(i);
    const double mean = sums[set] / counts[set];
    const double variance = squares[set] / counts[set] - mean * mean;
    const auto channel = static_cast<std::size_t>(channel_of(i));
    maps[i] = static_cast<float>((maps[i] - mean) / std::sqrt(variance + epsilon) * factors[channel] + terms[channel]);
  }
  return maps;
}

const std::vector<float> kOnes(kMaps, 1.0F);
const std::vector<float> kNoTerms(kMaps, 0.0F);

std::size_t by_two_groups(std::size_t i) { return i / (kValues / 2); }
std::size_t by_channel(std::size_t i) { return i / (kSide * kSide); }
std::size_t by_image(std::size_t i) { return i / kValues; }
std::size_t by_position(std::size_t i) { return i / kValues * kSide * kSide + i % (kSide * kSide); }

std::vector<float> numbers(const std::string& name, std::int64_t count) {
  SmallModel m;
  m.constant(name, {count});
  return m.values(name);
}

void set_epsilon(onnx::NodeProto& node) { SmallModel::set_number(node, "epsilon", 0.25F); }

/// GroupNorm(2) as PyTorch's exporters compose it.
void composed_group_norm(SmallModel& m, bool affine) {
  m.integers("to", {0, 2, -1}), m.integers("back", {0, 4, 6, 6});
  m.number("one", 1.0F), m.number("zero", 0.0F);
  for (const char* name : {"ones", "zeros"}) {
    m.constant(name, {2});
    for (float& each : *m.tensor(name).mutable_float_data()) each = name == std::string("ones") ? 1.0F : 0.0F;
  }
  m.node("Reshape", {m.last, "to"});
  set_epsilon(m.node("InstanceNormalization", {m.last, "ones", "zeros"}));
  m.node("Reshape", {m.last, "back"});
  if (!affine) return;
  m.constant("scale", {4, 1, 1}), m.constant("shift", {4, 1, 1});
  m.node("Mul", {m.last, "scale"});
  m.node("Add", {m.last, "shift"});
}

TEST(OnnxNorms, OfGroups) {
  const std::vector<float> scale = numbers("scale", 4);
  const std::vector<float> shift = numbers("shift", 4);
  const std::vector<float> expected = normalised(by_two_groups, scale, shift);
  expect_near(made_by([](SmallModel& m) { composed_group_norm(m, true); }), expected);
  const auto one_node = [](SmallModel& m, std::int64_t numbers_of_norm) {
    m.constant("scale", {numbers_of_norm}), m.constant("shift", {numbers_of_norm});
    auto& node = m.node("GroupNormalization", {m.last, "scale", "shift"});
    set_epsilon(node), SmallModel::set(node, "num_groups", {2});
  };
  // PyTorch's exporter writes the form of opset 21 for opset 18, too.
  for (const int opset : {18, 21}) expect_near(made_by([&](SmallModel& m) { one_node(m, 4); }, opset), expected);
  // Before opset 21 each group had a factor and a term.
  expect_near(
      made_by([&](SmallModel& m) { one_node(m, 2); }, 18),
      normalised(by_two_groups, {scale[0], scale[0], scale[1], scale[1]}, {shift[0], shift[0], shift[1], shift[1]}));
}

TEST(OnnxNorms, HaveFactorsWhereTheModelHasThem) {
  const ImportedNet plain = imported_with([](SmallModel& m) { composed_group_norm(m, false); }, 13, kValues);
  EXPECT_THAT(plain.yaml, testing::HasSubstr("type: group_norm, groups: 2, epsilon: 0.25, affine: false"));
  EXPECT_THAT(plain.tensors, testing::SizeIs(3));  // the convolution's weights, and the dense layer's
  const ImportedNet affine = imported_with([](SmallModel& m) { composed_group_norm(m, true); }, 13, kValues);
  ASSERT_THAT(affine.tensors, testing::SizeIs(5));
  EXPECT_EQ(affine.tensors[1].dims, (std::vector<std::int64_t>{4}));
  EXPECT_EQ(affine.tensors[1].values, numbers("scale", 4));
  EXPECT_EQ(affine.tensors[2].values, numbers("shift", 4));
}

TEST(OnnxNorms, OfChannels) {
  const auto nodes = [](SmallModel& m) {
    m.constant("scale", {4}), m.constant("shift", {4});
    set_epsilon(m.node("InstanceNormalization", {m.last, "scale", "shift"}));
  };
  expect_near(made_by(nodes), normalised(by_channel, numbers("scale", 4), numbers("shift", 4)));
}

void turn(SmallModel& m, bool channels_last) {
  SmallModel::set(m.node("Transpose", {m.last}), "perm",
                  channels_last ? std::vector{0, 2, 3, 1} : std::vector{0, 3, 1, 2});
}

TEST(OnnxNorms, OfPositions) {
  const std::vector<float> expected = normalised(by_position, numbers("scale", 4), numbers("shift", 4));
  expect_near(made_by(
                  [](SmallModel& m) {
                    turn(m, true);
                    m.constant("scale", {4}), m.constant("shift", {4});
                    set_epsilon(m.node("LayerNormalization", {m.last, "scale", "shift"}));
                    turn(m, false);
                  },
                  17),
              expected);
  // Before opset 17 PyTorch composes it.
  for (const bool channels_last : {true, false}) {
    expect_near(made_by([&](SmallModel& m) {
                  if (channels_last) turn(m, true);
                  const std::vector<int> axes{channels_last ? -1 : 1};
                  m.number("two", 2.0F), m.number("epsilon", 0.25F);
                  const std::string x = m.last;
                  SmallModel::set(m.node("ReduceMean", {x}), "axes", axes);
                  const std::string distance = m.node("Sub", {x, m.last}).output(0);
                  m.node("Pow", {distance, "two"});
                  SmallModel::set(m.node("ReduceMean", {m.last}), "axes", axes);
                  m.node("Add", {m.last, "epsilon"});
                  m.node("Sqrt", {m.last});
                  m.node("Div", {distance, m.last});
                  const auto shape = channels_last ? std::vector<std::int64_t>{4} : std::vector<std::int64_t>{4, 1, 1};
                  m.constant("scale", shape), m.constant("shift", shape);
                  m.node("Mul", {m.last, "scale"});
                  m.node("Add", {m.last, "shift"});
                  if (channels_last) turn(m, false);
                }),
                expected);
  }
}

TEST(OnnxNorms, OfWholeImages) {
  const auto nodes = [](SmallModel& m) {
    m.constant("scale", {4, 1, 1});
    auto& node = m.node("LayerNormalization", {m.last, "scale"});
    set_epsilon(node), SmallModel::set(node, "axis", {1});
  };
  expect_near(made_by(nodes, 17), normalised(by_image, numbers("scale", 4), kNoTerms));
}

TEST(OnnxNorms, MayBeFollowedByProductsOverChannels) {
  const auto nodes = [](SmallModel& m) {
    m.constant("scale", {4}), m.constant("v", {4, 5}), m.constant("b", {5});
    turn(m, true);
    set_epsilon(m.node("LayerNormalization", {m.last, "scale"}));
    m.node("MatMul", {m.last, "v"});
    m.node("Add", {"b", m.last});
    turn(m, false);
  };
  const std::vector<float> from = normalised(by_position, numbers("scale", 4), kNoTerms);
  const std::vector<float> v = numbers("v", 20);
  const std::vector<float> b = numbers("b", 5);
  std::vector<float> expected;
  for (std::size_t i = 0; i < 2 * 5 * kSide * kSide; ++i) {
    const std::size_t image = i / (5 * kSide * kSide);
    const std::size_t unit = i / (kSide * kSide) % 5;
    double sum = b[unit];
    for (std::size_t c = 0; c < kMaps; ++c) {
      sum += static_cast<double>(from[image * kValues + c * kSide * kSide + i % (kSide * kSide)]) * v[c * 5 + unit];
    }
    expected.push_back(static_cast<float>(sum));
  }
  expect_near(made_by(nodes, 17, 180), expected);
}

TEST(OnnxSlopes, AreOfChannels) {
  using Dims = std::vector<std::int64_t>;
  for (const Dims& shape : {Dims{4, 1, 1}, Dims{1, 4, 1, 1}, Dims{1}, Dims{1, 1, 1, 1}}) {
    const bool one = std::ranges::count(shape, 4) == 0;
    const auto nodes = [&](SmallModel& m) {
      m.constant("slopes", shape);
      m.node("PRelu", {m.last, "slopes"});
    };
    const std::vector<float> slopes = numbers("slopes", one ? 1 : 4);
    std::vector<float> expected = plain_maps();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const float slope = slopes[one ? 0 : static_cast<std::size_t>(channel_of(i))];
      if (expected[i] < 0.0F) expected[i] *= slope;
    }
    expect_near(made_by(nodes), expected);
    const ImportedNet net = imported_with(nodes, 13, kValues);
    EXPECT_THAT(net.yaml, testing::HasSubstr("type: prelu"));
    EXPECT_EQ(net.tensors.at(1).dims, (std::vector<std::int64_t>{4}));
  }
}

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
  expect_near(made_by(
                  [](SmallModel& m) {
                    m.integers("sizes", {1, 4, 12, 18});
                    m.node("Resize", {m.last, "", "", "sizes"});
                  },
                  13, 864),
              expected);
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
    Norms, OnnxRefusals,
    testing::Values(
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
        Refusal{"NormOfColumns",
                [](SmallModel& m) {
                  m.constant("scale", {6});
                  m.node("LayerNormalization", {m.last, "scale"});
                },
                "node2 (LayerNormalization): it normalises the axes 3 of 1x4x6x6", 17},
        Refusal{"NormWithNumbersForElements",
                [](SmallModel& m) {
                  m.constant("scale", {4, 6, 6});
                  SmallModel::set(m.node("LayerNormalization", {m.last, "scale"}), "axis", {1});
                },
                "node2 (LayerNormalization): its scale differs between the elements of a channel", 17},
        Refusal{"NormOfADenseLayer",
                [](SmallModel& m) {
                  flat(m);
                  m.constant("scale", {5});
                  m.node("LayerNormalization", {m.last, "scale"});
                },
                "(LayerNormalization): it normalises outputs of a dense layer", 17},
        Refusal{"UnequalGroups",
                [](SmallModel& m) {
                  m.constant("scale", {3});
                  SmallModel::set(m.node("GroupNormalization", {m.last, "scale", "scale"}), "num_groups", {3});
                },
                "node2 (GroupNormalization): 4 channels are not divisible into 3 groups", 18},
        Refusal{"NumbersForOtherChannels",
                [](SmallModel& m) {
                  m.constant("scale", {3});
                  m.node("InstanceNormalization", {m.last, "scale", "scale"});
                },
                "node2 (InstanceNormalization): its scale has 3 values and its bias 3; expected 4"},
        Refusal{"SlopesOfElements",
                [](SmallModel& m) {
                  m.constant("slopes", {4, 6, 6});
                  m.node("PRelu", {m.last, "slopes"});
                },
                "node2 (PRelu): its slope differs between the elements of a channel"},
        Refusal{"SlopesOfAList",
                [](SmallModel& m) {
                  m.constant("slopes", {144});
                  m.node("Flatten", {m.last});
                  m.node("PRelu", {m.last, "slopes"});
                },
                "node3 (PRelu): it has several slopes for flattened maps"},
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
