// Tests imports of transposed convolutions: values against loops that add each element's window, and refusals.

#include <array>

#include "tests/nets/made_maps.hpp"
#include "tests/nets/refusals.hpp"

namespace convoy {
namespace {

using Pair = std::array<int, 2>;

/// A ConvTranspose of 4 maps of 6x6, with one number for rows and one for columns.
struct Transposed {
  std::string name;
  Pair kernel{3, 3};
  Pair strides{1, 1};
  std::array<int, 4> pads{};  ///< top, left, bottom, right
  Pair dilations{1, 1};
  Pair more{};
  int groups = 1;
  int filters = 2;  ///< of a group
  std::string auto_pad = "";
  Pair shape{};  ///< output_shape; {} for none

  int whole(std::size_t axis) const {
    return (kSide - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1 + more[axis];
  }
};

void PrintTo(const Transposed& made, std::ostream* out) { *out << made.name; }

void add_transposed(SmallModel& m, const Transposed& of) {
  m.constant("u", {kMaps, of.filters, of.kernel[0], of.kernel[1]});
  m.constant("b", {static_cast<std::int64_t>(of.filters) * of.groups});
  auto& node = m.node("ConvTranspose", {m.last, "u", "b"});
  const auto list = [](const auto& numbers) { return std::vector<int>(numbers.begin(), numbers.end()); };
  SmallModel::set(node, "strides", list(of.strides)), SmallModel::set(node, "dilations", list(of.dilations));
  SmallModel::set(node, "output_padding", list(of.more)), SmallModel::set(node, "group", {of.groups});
  if (of.auto_pad.empty() && of.shape == Pair{}) SmallModel::set(node, "pads", list(of.pads));
  if (!of.auto_pad.empty()) SmallModel::set_text(node, "auto_pad", of.auto_pad);
  if (of.shape != Pair{}) SmallModel::set(node, "output_shape", list(of.shape));
}

/// Each element of the maps adds its multiple of the kernel to the output.
std::vector<float> expected_of(const Transposed& of) {
  const std::vector<float> maps = plain_maps();
  const int filters = of.filters * of.groups;
  const int taps = of.kernel[0] * of.kernel[1];
  const std::vector<float> u = numbers("u", static_cast<std::int64_t>(kMaps) * of.filters * taps);
  const std::vector<float> b = numbers("b", filters);
  const int rows = of.whole(0) - of.pads[0] - of.pads[2];
  const int columns = of.whole(1) - of.pads[1] - of.pads[3];
  std::vector<double> sums(static_cast<std::size_t>(2 * filters * rows * columns));
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = b[i / static_cast<std::size_t>(rows * columns) % static_cast<std::size_t>(filters)];
  }
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const int image = static_cast<int>(i / kValues);
    const int channel = channel_of(i);
    const int group = channel / (kMaps / of.groups);
    for (int tap = 0; tap < of.filters * taps; ++tap) {
      const int filter = group * of.filters + tap / taps;
      const int y = static_cast<int>(i) / kSide % kSide * of.strides[0] + tap % taps / of.kernel[1] * of.dilations[0] -
                    of.pads[0];
      const int x = static_cast<int>(i) % kSide * of.strides[1] + tap % of.kernel[1] * of.dilations[1] - of.pads[1];
      if (y < 0 || y >= rows || x < 0 || x >= columns) continue;
      sums[((image * filters + filter) * rows + y) * columns + x] +=
          static_cast<double>(maps[i]) * u[channel * of.filters * taps + tap];
    }
  }
  return {sums.begin(), sums.end()};
}

class TransposedConvolutions : public testing::TestWithParam<Transposed> {};

TEST_P(TransposedConvolutions, AddTheWindowsOfElements) {
  const std::vector<float> expected = expected_of(GetParam());
  expect_near(made_by([](SmallModel& m) { add_transposed(m, GetParam()); }, 13, expected.size() / 2), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Nodes, TransposedConvolutions,
    testing::Values(
        Transposed{.name = "Plain"}, Transposed{.name = "Strided", .strides = {2, 2}},
        Transposed{.name = "DoublesMaps", .strides = {2, 2}, .pads = {1, 1, 1, 1}, .more = {1, 1}},
        Transposed{.name = "KernelOfTheStride", .kernel = {2, 2}, .strides = {2, 2}},
        Transposed{.name = "StrideBeyondTheKernel", .kernel = {1, 2}, .strides = {3, 4}, .more = {2, 0}},
        Transposed{.name = "Uneven", .kernel = {2, 4}, .strides = {1, 3}, .pads = {0, 2, 1, 3}, .more = {0, 2}},
        Transposed{.name = "Dilated", .strides = {2, 1}, .pads = {3, 0, 2, 1}, .dilations = {2, 3}, .more = {1, 2}},
        Transposed{.name = "Groups", .strides = {2, 2}, .pads = {1, 0, 1, 0}, .groups = 2, .filters = 3},
        Transposed{
            .name = "Depthwise", .kernel = {4, 4}, .strides = {2, 2}, .pads = {1, 1, 1, 1}, .groups = 4, .filters = 1},
        // 6 rows become 12 with SAME, of which a stride of 2 and a kernel of 4 make 14.
        Transposed{
            .name = "SameUpper", .kernel = {4, 3}, .strides = {2, 2}, .pads = {1, 0, 1, 1}, .auto_pad = "SAME_UPPER"},
        Transposed{
            .name = "SameLower", .kernel = {4, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 0}, .auto_pad = "SAME_LOWER"},
        Transposed{.name = "Valid", .strides = {2, 2}, .auto_pad = "VALID"},
        Transposed{.name = "OfAShape", .strides = {2, 2}, .pads = {1, 1, 0, 1}, .shape = {12, 11}}),
    [](const auto& info) { return info.param.name; });

Nodes transposed_by(const std::function<void(onnx::NodeProto&)>& change, std::int64_t channels = kMaps) {
  return [=](SmallModel& m) {
    m.constant("u", {channels, 2, 3, 3});
    change(m.node("ConvTranspose", {m.last, "u"}));
  };
}

INSTANTIATE_TEST_SUITE_P(
    Transposed, OnnxRefusals,
    testing::Values(Refusal{"OtherChannels", transposed_by([](auto&) {}, 3),
                            "node2 (ConvTranspose): its weights are for 3 channels in 1 groups, but its input has 4"},
                    Refusal{"UnequalGroups", transposed_by([](auto& node) { SmallModel::set(node, "group", {3}); }),
                            "node2 (ConvTranspose): its weights are for 4 channels in 3 groups"},
                    Refusal{"MorePaddingThanStride", transposed_by([](auto& node) {
                              SmallModel::set(node, "output_padding", {1, 0});
                            }),
                            "node2 (ConvTranspose): output_padding is 1 0"},
                    Refusal{"CutOffBeyondTheKernel", transposed_by([](auto& node) {
                              SmallModel::set(node, "pads", {3, 0, 0, 0});
                            }),
                            "node2 (ConvTranspose): its pads 3 0 0 0 cut off more than the kernel 3x3 adds"},
                    Refusal{"PadsBelowZero", transposed_by([](auto& node) {
                              SmallModel::set(node, "pads", {0, 0, 0, -1});
                            }),
                            "node2 (ConvTranspose): pads is 0 0 0 -1"},
                    Refusal{"LargerShape", transposed_by([](auto& node) {
                              SmallModel::set(node, "output_shape", {9, 8});
                            }),
                            "node2 (ConvTranspose): its output would be smaller than it asks for by 1"},
                    Refusal{"KernelOfOtherExtents", transposed_by([](auto& node) {
                              SmallModel::set(node, "kernel_shape", {3, 2});
                            }),
                            "node2 (ConvTranspose): its kernel_shape differs"},
                    Refusal{"HugeStride", transposed_by([](auto& node) {
                              SmallModel::set(node, "strides", {5000, 1});
                            }),
                            "node2 (ConvTranspose): its kernel is 3, its stride 5000"}),
    refusal_name);

TEST(OnnxTransposed, OfOneDimensionIsRefused) {
  SmallModel m;
  m.constant("u", {4, 2, 3});
  m.node("ConvTranspose", {m.last, "u"});
  EXPECT_THAT(message_of(m), testing::HasSubstr("node2 (ConvTranspose): its weights have 3 extents; expected 4"));
}

TEST(OnnxTransposed, FoldsFactorsOfItsFilters) {
  const std::vector<float> plain = made_by([](SmallModel& m) { add_transposed(m, {.name = "Plain"}); }, 13, 128);
  const std::vector<float> got = made_by(
      [](SmallModel& m) {
        add_transposed(m, {.name = "Plain"});
        m.constant("factor", {2, 1, 1});
        m.node("Mul", {m.last, "factor"});
      },
      13, 128);
  std::vector<float> expected = plain;
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= numbers("factor", 2)[i / 64 % 2];
  expect_near(got, expected);
}

}  // namespace
}  // namespace convoy
