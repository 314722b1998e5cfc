// Cases of dilated convolutions, norms of one sample, and maps of other rows and columns.

#include "tests/support/stage_case_forms.hpp"

namespace convoy {
namespace {

Convolution dilated(Convolution conv, int rows, int columns) {
  conv.dilation_h = rows;
  conv.dilation_w = columns;
  return conv;
}

constexpr Pooling kDilatedMax{
    .kernel_h = 3, .kernel_w = 2, .stride_h = 1, .stride_w = 2, .pad = {2, 1, 1, 3}, .dilation_h = 2, .dilation_w = 3};
constexpr Pooling kDilatedMax2{
    .kernel_h = 2, .kernel_w = 2, .stride_h = 1, .stride_w = 1, .pad = {}, .dilation_h = 2, .dilation_w = 2};

}  // namespace

std::vector<StageCase> dilated_cases() {
  const auto relu = Activation::relu;
  const BatchNorm norm{.name = "norm", .epsilon = 0.01F, .momentum = 0.25F};
  return {
      whole("Dilated", {2, 3, 9, 8, 5}, dilated(square(3, 1, 2), 2, 2), {relu}),
      whole("DilatedFirstStage", {2, 1, 12, 11, 20}, dilated(square(5), 2, 1), {relu, kMax2}, false),
      whole("DilatedStride2", {2, 4, 11, 10, 20}, dilated(square(3, 2, 3), 3, 2), {norm, relu}),
      whole("DilatedRectangular", {3, 5, 12, 9, 7},
            dilated({.kernel_h = 2, .kernel_w = 4, .stride_h = 1, .stride_w = 2, .pad = {2, 4, 0, 1}}, 3, 2),
            {kAverage2}),
      whole("DilatedBlocks", {2, 32, 8, 8, 32}, dilated(without_bias(square(3, 1, 2)), 2, 2), {norm, relu}),
      whole("DilatedFiftyChannels", {2, 50, 8, 8, 33}, dilated(square(3, 1, 4), 4, 4), {relu}),
      whole("DilatedManyFilters", {1, 256, 5, 4, 260}, dilated(square(3, 1, 2), 2, 2), {Activation::tanh}),
      whole("DilatedPointwise", {2, 19, 5, 7, 9}, dilated(square(1), 3, 3), {relu}),
      whole("DilatedTwoGroups", {2, 6, 9, 9, 10}, dilated(in_groups(square(3, 1, 2), 2), 2, 2), {relu, kMax2}),
      whole("DilatedDepthwise", {2, 20, 9, 9, 20}, dilated(in_groups(square(3, 1, 2), 20), 2, 2), {relu}),
      whole("DilatedDepthwiseStride2", {2, 32, 9, 8, 32}, dilated(in_groups(without_bias(square(3, 2, 3)), 32), 3, 3),
            {norm, relu}),
      part("DilatedShard", {2, 5, 9, 9, 20}, dilated(square(3, 1, 1), 1, 3), {relu, kMax2}, {7, 6}),
      part("DilatedPartsOfGroups", {3, 12, 9, 9, 20}, dilated(in_groups(square(3, 1, 2), 4), 2, 2), {relu}, {3, 14}),
      whole("DilatedMaxPool", {2, 3, 11, 9, 6}, square(3, 1, 1), {relu, kDilatedMax}),
      whole("DilatedMaxPoolOfBlocks", {2, 32, 9, 8, 32}, square(3, 1, 1), {kDilatedMax, relu, kDilatedMax2}),
      whole("DilatedMaxPoolInPlaceOfAFusedOne", {2, 3, 8, 8, 20}, square(3, 1, 1), {relu, kDilatedMax2}),
      whole("DilatedMaxPoolAfterBatchNorm", {3, 4, 7, 9, 20}, without_bias(square(3, 1, 1)), {norm, relu, kDilatedMax}),
      weightless("DilatedMaxPoolOfChannels", StageKind::channels, {3, 11, 9, 8, 0}, {kDilatedMax}, {3, 5}),
  };
}

namespace {

StageCase normalised(std::string name, const Sizes& sizes, const GroupNorm& norm, std::vector<ChannelLayer> after,
                     FilterRange filters) {
  StageCase made = weightless(std::move(name), StageKind::group_norm, sizes, std::move(after), filters);
  made.spec.stage.group_norm = norm;
  return made;
}

using Mode = Resizing::Mode;
using Axis = Resizing::Axis;

StageCase resized(std::string name, const Sizes& sizes, const Resizing& by, std::vector<ChannelLayer> after,
                  FilterRange filters) {
  StageCase made = weightless(std::move(name), StageKind::resize, sizes, std::move(after), filters);
  made.spec.stage.resizing = by;
  return made;
}

/// Axes of `extent` elements, of which others are made: by a whole factor, between centres, and between corners.
Axis repeated(int extent, int factor) { return {extent * factor, 1.0 / factor, 0.0}; }
Axis centred(int extent, int result) {
  const double step = static_cast<double>(extent) / result;
  return {result, step, 0.5 * step - 0.5};
}
Axis cornered(int extent, int result) { return {result, (extent - 1.0) / (result - 1.0), 0.0}; }

}  // namespace

/// Group norms, resized maps, and a depthwise convolution of one weight for each channel, as the slopes of a PReLU are.
std::vector<StageCase> cases_of_norms_and_sizes() {
  const auto relu = Activation::relu;
  const BatchNorm norm{.name = "norm", .epsilon = 0.01F, .momentum = 0.25F};
  const Multiply gate{.from = {}, .by_points = true};
  return {
      normalised("GroupNorm", {3, 12, 5, 6, 0}, {.groups = 3, .epsilon = 0.01F}, {}, {0, 12}),
      normalised("GroupNormOfOneGroup", {2, 16, 6, 6, 0}, {.groups = 1}, {relu, kMax2}, {0, 16}),
      normalised("GroupNormOfPartsOfGroups", {3, 12, 5, 6, 0}, {.groups = 3}, {relu}, {2, 5}),
      normalised("GroupNormOfOneFilter", {2, 12, 5, 5, 0}, {.groups = 2}, {norm, gate}, {7, 1}),
      normalised("InstanceNorm", {2, 7, 5, 6, 0}, {.groups = 7, .epsilon = 0.001F}, {relu}, {0, 7}),
      normalised("InstanceNormOfAShard", {2, 7, 5, 6, 0}, {.groups = 7}, {Add{}, relu}, {3, 2}),
      normalised("LayerNorm", {3, 11, 5, 6, 0}, {.groups = 1, .by_position = true}, {}, {0, 11}),
      normalised("LayerNormOfAShard", {2, 16, 4, 6, 0}, {.groups = 1, .by_position = true}, {gate, kAverage2}, {5, 6}),
      normalised("LayerNormOfPoints", {3, 20, 1, 1, 0}, {.groups = 1, .by_position = true}, {}, {0, 20}),
      normalised("LayerNormOfGroups", {2, 12, 3, 5, 0}, {.groups = 4, .by_position = true}, {relu}, {4, 4}),
      resized("Nearest", {2, 5, 3, 4, 0}, {Mode::nearest, repeated(3, 2), repeated(4, 2)}, {}, {0, 5}),
      resized("NearestRectangular", {2, 16, 3, 2, 0}, {Mode::nearest, repeated(3, 1), repeated(2, 3)}, {relu, kMax2},
              {0, 16}),
      resized("NearestOfAShard", {3, 9, 3, 3, 0}, {Mode::nearest, repeated(3, 3), repeated(3, 2)}, {norm, Add{}},
              {2, 4}),
      resized("NearestSmaller", {2, 5, 7, 6, 0}, {Mode::nearest, {4, 1.75, 0.0}, {3, 2.0, 1.0}}, {}, {0, 5}),
      resized("NearestUneven", {2, 9, 5, 4, 0}, {Mode::nearest, {7, 5.0 / 7, 0.0}, {6, 4.0 / 6, 0.5}}, {relu}, {3, 4}),
      resized("Bilinear", {2, 5, 3, 4, 0}, {Mode::linear, centred(3, 6), centred(4, 8)}, {}, {0, 5}),
      resized("BilinearRectangular", {2, 4, 5, 1, 0}, {Mode::linear, centred(5, 15), centred(1, 4)}, {relu}, {0, 4}),
      resized("BilinearOfAShard", {3, 9, 3, 4, 0}, {Mode::linear, centred(3, 3), centred(4, 8)}, {gate, kMax2}, {5, 3}),
      resized("BilinearSmaller", {2, 5, 7, 9, 0}, {Mode::linear, centred(7, 3), centred(9, 4)}, {}, {0, 5}),
      resized("BilinearUneven", {2, 9, 5, 4, 0}, {Mode::linear, {7, 0.7, 0.25}, {5, 0.8, 0.0}}, {norm}, {2, 5}),
      resized("BilinearOfCorners", {2, 16, 4, 5, 0}, {Mode::linear, cornered(4, 7), cornered(5, 3)}, {relu}, {0, 16}),
      resized("Spread", {2, 5, 3, 4, 0}, {Mode::spread, {5, 2.0, 0.0}, {11, 3.0, 0.0}}, {}, {0, 5}),
      resized("SpreadOfAShard", {3, 9, 3, 3, 0}, {Mode::spread, {8, 3.0, 1.0}, {3, 1.0, 0.0}}, {norm, Add{}}, {4, 3}),
      whole("Slopes", {2, 9, 6, 5, 9}, in_groups(without_bias(square(1)), 9), {Add{}}),
      part("SlopesOfAShard", {2, 20, 6, 5, 20}, in_groups(square(1), 20), {Add{}, relu}, {3, 11}),
  };
}

const std::vector<StageCase>& tile_cases() {
  static const std::vector<StageCase> cases = [] {
    const Activation leaky{Activation::Kind::leaky_relu, 0.25F};
    const BatchNorm norm{.name = "norm", .epsilon = 0.01F, .momentum = 0.25F};
    StageCase micro_batches = whole("TilesOfMicroBatches", {12, 16, 12, 16, 16}, without_bias(square(5, 1, 2)), {norm});
    micro_batches.spec.micro_batches = 2;
    return std::vector{
        whole("TilesOf3", {7, 32, 16, 15, 31}, square(3, 1, 1), {Activation::relu, kMax2}),
        whole("TilesOf3WithoutPadding", {7, 30, 18, 18, 32}, square(3), {kAverage2}),
        whole("TilesOf5", {4, 31, 16, 15, 30}, square(5, 1, 2), {Activation::sigmoid}),
        part("TilesOfAShard", {4, 30, 17, 16, 70},
             {.kernel_h = 5, .kernel_w = 5, .stride_h = 1, .stride_w = 1, .pad = {2, 0, 1, 3}}, {leaky}, {19, 31}),
        micro_batches,
        whole("TilesOfTwoGroups", {4, 32, 15, 16, 64}, in_groups(square(5, 1, 2), 2), {Activation::tanh}),
    };
  }();
  return cases;
}

}  // namespace convoy
