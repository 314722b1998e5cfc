// Tests imports of norms of a sample and slopes of channels: values against loops in this file, and refusals.

#include <algorithm>
#include <cmath>

#include "tests/nets/made_maps.hpp"
#include "tests/nets/refusals.hpp"

namespace convoy {
namespace {

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

INSTANTIATE_TEST_SUITE_P(
    Norms, OnnxRefusals,
    testing::Values(Refusal{"NormOfColumns",
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
                    Refusal{
                        "UnequalGroups",
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
                            "node3 (PRelu): it has several slopes for flattened maps"}),
    refusal_name);

}  // namespace
}  // namespace convoy
