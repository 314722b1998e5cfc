#include "tests/support/stage_cases.hpp"

#include <algorithm>
#include <limits>
#include <ostream>

#include "core/random.hpp"
#include "tests/support/stage_case_forms.hpp"

namespace convoy {
namespace {

std::vector<StageCase> cases_in_groups() {
  const auto relu = Activation::relu;
  const Activation leaky{Activation::Kind::leaky_relu, 0.125F};
  const BatchNorm norm{.name = "norm", .epsilon = 0.01F, .momentum = 0.25F};
  return {
      whole("TwoGroups", {2, 6, 8, 8, 10}, in_groups(square(3, 1, 1), 2), {relu, kMax2}),
      whole("GroupsOfBlocks", {2, 32, 7, 7, 64}, in_groups(square(3, 2, 1), 2), {relu}),
      whole("ManySmallGroups", {2, 24, 6, 6, 48}, in_groups(without_bias(square(3, 1, 1)), 12), {norm, relu}),
      whole("GroupsFirstStage", {2, 4, 9, 9, 6}, in_groups(square(3), 2), {kMax2, relu}, false),
      whole("Depthwise", {3, 20, 7, 7, 20}, in_groups(without_bias(square(3, 1, 1)), 20), {norm, relu}),
      whole("DepthwiseStride2", {2, 32, 8, 8, 32}, in_groups(square(3, 2, 1), 32), {Activation::tanh}),
      whole("DepthwiseMultiplied", {2, 6, 9, 7, 18}, in_groups(square(3, 1, 1), 6), {relu, kAverage2}),
      part("DepthwiseShard", {2, 20, 7, 7, 20}, in_groups(square(3, 1, 1), 20), {relu}, {5, 9}),
      part("WholeGroups", {2, 12, 7, 7, 20}, in_groups(square(3, 1, 1), 4), {relu, kMax2}, {5, 10}),
      part("PartOfAGroup", {2, 8, 7, 7, 20}, in_groups(square(3, 1, 1), 2), {relu}, {12, 5}),
      part("PartsOfGroups", {3, 12, 8, 8, 20}, in_groups(square(3, 1, 1), 4), {relu, kMax2, Dropout{0.4F, 1}}, {3, 14}),
      part("PartsOfGroupsWithSum", {3, 12, 8, 8, 20}, in_groups(without_bias(square(3, 2, 1)), 4), {norm, Add{}, leaky},
           {7, 11}),
  };
}

/// Activations joined to a convolution and apart from it, before and behind other layers, with channels that fill no
/// block.
std::vector<StageCase> cases_with_activations() {
  using Kind = Activation::Kind;
  constexpr float kNone = std::numeric_limits<float>::infinity();
  const BatchNorm norm{.name = "norm", .epsilon = 0.01F, .momentum = 0.25F};
  const Activation relu6{Kind::clip, 0.0F, 1.5F};
  const Activation hard_sigmoid{Kind::hard_sigmoid, 0.25F, 0.5F};
  const Activation elu{Kind::elu, 0.75F};
  const Activation selu{Kind::selu};
  const Activation softplus{Kind::softplus};
  const Activation silu{Kind::silu};
  const Activation hard_swish{Kind::hard_swish};
  const Activation gelu{Kind::gelu};
  const Activation gelu_tanh{Kind::gelu_tanh};
  const Activation mish{Kind::mish};
  const Activation celu{Kind::celu, 0.5F};
  return {
      whole("Clip", {2, 3, 8, 8, 5}, square(3, 1, 1), {Activation{Kind::clip, -0.5F, 1.25F}}),
      whole("ClipThenMaxPool", {2, 20, 8, 7, 21}, square(3, 1, 1), {relu6, kMax2}),
      whole("ClipAboveZero", {2, 3, 7, 7, 20}, square(3, 1, 1), {Activation{Kind::clip, 0.25F, 2.0F}, norm}),
      whole("ClipFromAbove", {2, 3, 6, 6, 5}, square(3), {Activation{Kind::clip, -kNone, 0.5F}, kAverage2}),
      // Few of the large sums are near the limit, where rounding would decide the gradient.
      whole("ClipFromBelow", {2, 50, 6, 6, 33}, square(5, 1, 2), {Activation{Kind::clip, -25.0F, kNone}}),
      whole("ClipDepthwise", {2, 20, 7, 7, 20}, in_groups(without_bias(square(3, 1, 1)), 20), {norm, relu6}),
      whole("HardSigmoid", {2, 3, 6, 6, 5}, square(3), {hard_sigmoid}),
      whole("HardSigmoidBetween", {2, 3, 8, 8, 20}, square(3, 1, 1), {norm, hard_sigmoid, kAverage2}),
      whole("Elu", {2, 3, 6, 6, 5}, square(3), {elu, kAverage2}),
      whole("EluThenSum", {2, 4, 6, 6, 20}, without_bias(square(3, 1, 1)), {norm, elu, Add{}}),
      whole("Selu", {2, 3, 6, 6, 5}, square(3), {selu, Dropout{0.25F, 1}}),
      whole("Softplus", {2, 3, 6, 6, 5}, square(3), {softplus}),
      whole("SoftplusBetween", {2, 3, 8, 8, 20}, square(3, 1, 1), {softplus, norm, kAverage2, softplus}),
      whole("Silu", {2, 3, 6, 6, 5}, square(3), {silu}),
      whole("SiluTwice", {3, 6, 7, 6, 20}, square(3, 1, 1), {silu, kMax2, silu}),
      whole("SiluDepthwise", {2, 20, 7, 7, 20}, in_groups(without_bias(square(3, 2, 1)), 20), {norm, silu}),
      whole("HardSwish", {2, 3, 6, 6, 5}, square(3), {hard_swish}),
      whole("HardSwishAfterSum", {2, 16, 6, 6, 32}, without_bias(square(3, 1, 1)), {norm, Add{}, hard_swish}),
      whole("Gelu", {2, 3, 6, 6, 5}, square(3), {gelu}),
      whole("GeluThenMaxPool", {2, 20, 8, 7, 21}, square(3, 1, 1), {gelu, kMax2, Dropout{0.25F, 1}}, false),
      whole("GeluByTanh", {2, 3, 6, 6, 5}, square(3), {gelu_tanh}),
      whole("Mish", {2, 3, 6, 6, 5}, square(3), {mish}),
      whole("Celu", {2, 3, 6, 6, 5}, square(3), {celu}),
      whole("ActivationsInTurn", {2, 20, 8, 7, 21}, square(3, 1, 1), {celu, mish, norm, gelu_tanh, kMax2}, false),
      part("ShardWithClip", {2, 5, 9, 9, 20}, square(3, 1, 1), {relu6, kMax2}, {7, 6}),
      part("ShardWithSilu", {3, 5, 9, 9, 20}, without_bias(square(3)), {norm, Add{}, silu, kMax2}, {7, 6}),
      part("PartsOfGroupsWithGelu", {2, 12, 8, 8, 20}, in_groups(square(3, 1, 1), 4), {gelu, kMax2}, {3, 14}),
      weightless("ChannelsActivated", StageKind::channels, {3, 11, 9, 8, 0}, {hard_swish, norm, gelu, kAverage2},
                 {3, 5}),
  };
}

/// Products and gates, averages that count padding, and shuffled channels.
std::vector<StageCase> cases_with_gates() {
  const auto relu = Activation::relu;
  const Activation silu{Activation::Kind::silu};
  const BatchNorm norm{.name = "norm", .epsilon = 0.01F, .momentum = 0.25F};
  const Multiply product{};
  const Multiply gate{.from = {}, .by_points = true};
  return {
      whole("Product", {2, 4, 7, 6, 5}, square(3, 1, 1), {product}),
      whole("ProductAfterRelu", {2, 4, 7, 6, 20}, square(3, 1, 1), {relu, product, kMax2}),
      whole("ProductsAndSums", {3, 5, 8, 8, 7}, square(3, 1, 1), {product, kMax2, Add{}, silu, product}),
      whole("ProductAfterBatchNorm", {3, 16, 6, 6, 32}, without_bias(square(3, 1, 1)), {norm, relu, product, relu}),
      whole("Gate", {2, 4, 7, 6, 5}, square(3, 1, 1), {gate}),
      whole("GateOfPoints", {2, 4, 1, 1, 20}, square(1), {gate, relu}),
      whole("GateBetween", {3, 16, 6, 6, 33}, without_bias(square(3, 1, 1)), {norm, silu, gate, Add{}, norm}),
      whole("GateOfDepthwise", {2, 20, 7, 7, 20}, in_groups(without_bias(square(3, 2, 1)), 20), {norm, gate, silu}),
      whole("GateThenPooling", {2, 5, 9, 9, 17}, square(3, 1, 1), {relu, gate, kAverage3Padded, gate}),
      part("ShardWithProduct", {3, 5, 9, 9, 20}, without_bias(square(3)), {norm, product, relu, kMax2}, {7, 6}),
      part("ShardWithGate", {3, 5, 9, 9, 20}, square(3), {relu, gate, kMax2, Dropout{0.25F, 1}}, {7, 6}),
      part("PartsOfGroupsWithGates", {3, 12, 8, 8, 20}, in_groups(square(3, 1, 1), 4), {gate, relu, product}, {3, 14}),
      weightless("ChannelsGated", StageKind::channels, {3, 11, 9, 8, 0}, {gate}, {0, 11}),
      weightless("ChannelsOfBlocksGated", StageKind::channels, {2, 32, 6, 7, 0}, {gate, relu}, {0, 32}),
      weightless("ChannelsOfAShardGated", StageKind::channels, {3, 11, 9, 8, 0}, {gate, product, norm}, {3, 5}),
      whole("AveragePoolPadded", {2, 3, 11, 9, 6}, square(3, 1, 1), {relu, kAverage3Padded}),
      whole("AveragePoolPaddedRectangular", {2, 3, 9, 10, 20}, square(3, 1, 1), {kAveragePaddedRectangular}),
      weightless("ChannelsPooledPadded", StageKind::channels, {3, 11, 9, 8, 0}, {kAveragePaddedRectangular}, {3, 5}),
      shuffled("Shuffle", {2, 12, 5, 6, 0}, 2, {}, {0, 12}),
      shuffled("ShuffleOfAShard", {3, 12, 6, 6, 0}, 3, {relu, kMax2}, {4, 3}),
      shuffled("ShuffleOfOneFilter", {2, 12, 5, 5, 0}, 4, {norm, gate}, {7, 1}),
      shuffled("ShuffleOfOneGroup", {2, 7, 5, 5, 0}, 1, {relu}, {2, 4}),
      shuffled("ShuffleOfGroupsOfOne", {2, 7, 5, 5, 0}, 7, {}, {1, 5}),
  };
}

Convolution with_rate_of(Convolution conv, float rate) {
  conv.rate = rate;
  return conv;
}

/// Frozen layers, and layers with a learning rate of their own.
std::vector<StageCase> cases_with_rates() {
  const auto relu = Activation::relu;
  const BatchNorm norm{.name = "norm", .epsilon = 0.01F, .momentum = 0.25F};
  const BatchNorm fast{.name = "fast", .epsilon = 0.01F, .rate = 3.0F};
  const BatchNorm frozen{.name = "frozen", .epsilon = 0.01F, .momentum = 0.25F, .rate = 0.0F};
  const Convolution plain = without_bias(square(3, 1, 1));
  return {
      whole("FrozenNorm", {3, 4, 6, 7, 5}, plain, {frozen}),
      whole("FrozenNormRelu", {4, 16, 6, 6, 32}, plain, {frozen, relu}),
      whole("FrozenNormBeforeNorm", {4, 5, 6, 6, 7}, square(3, 1, 1), {frozen, relu, norm, kAverage2}),
      whole("NormBeforeFrozenNorm", {4, 5, 6, 6, 7}, square(3, 1, 1), {norm, Activation::tanh, frozen, relu}),
      whole("FrozenConvolution", {2, 3, 8, 8, 5}, with_rate_of(square(3, 1, 1), 0.0F), {relu, kMax2}),
      whole("FrozenConvolutionNorm", {4, 5, 6, 6, 7}, with_rate_of(plain, 0.0F), {norm, relu}),
      whole("FrozenConvolutionFirstStage", {3, 3, 9, 9, 8}, with_rate_of(plain, 0.0F), {fast, relu}, false),
      whole("AllFrozen", {3, 4, 6, 6, 9}, with_rate_of(square(3, 1, 1), 0.0F), {frozen, relu, Add{}}),
      whole("FrozenDepthwise", {3, 20, 7, 7, 20}, with_rate_of(in_groups(plain, 20), 0.0F), {frozen, relu}),
      with_adam(whole("OwnRates", {2, 3, 8, 8, 5}, with_rate_of(square(3, 1, 1), 0.25F), {fast, relu, kMax2})),
      with_adam(whole("FrozenWithAdam", {2, 3, 8, 8, 5}, with_rate_of(square(3, 1, 1), 0.0F), {fast, relu})),
      weightless("FrozenChannels", StageKind::channels, {3, 11, 9, 8, 0}, {frozen, relu, Add{}}, {3, 5}),
      part("FrozenShard", {3, 5, 9, 9, 20}, with_rate_of(without_bias(square(3)), 0.0F), {frozen, relu, kMax2}, {7, 6}),
  };
}

std::vector<StageCase> make_cases() {
  const auto relu = Activation::relu;
  const Activation leaky{Activation::Kind::leaky_relu, 0.125F};
  const BatchNorm norm{.name = "norm", .epsilon = 0.01F, .momentum = 0.25F};
  const BatchNorm second_norm{.name = "second_norm"};
  return {
      whole("Plain", {2, 3, 8, 8, 4}, square(3)),
      whole("OneOfEverything", {1, 1, 1, 1, 1}, square(1)),
      whole("OneFilter", {3, 5, 7, 6, 1}, square(3, 1, 1), {relu}),
      whole("OneChannelFirstStage", {2, 1, 12, 12, 20}, square(5, 1, 2), {relu, kMax2}, false),
      whole("ThreeChannelFirstStage", {3, 3, 16, 16, 17}, square(5, 1, 2), {relu, kMax2}, false),
      whole("FortySevenFilters", {2, 17, 9, 9, 47}, square(3, 1, 1), {relu, kMax2}),
      whole("Pointwise", {2, 19, 5, 7, 9}, square(1), {relu}),
      whole("PointwiseStride2", {2, 6, 7, 7, 8}, square(1, 2)),
      whole("KernelIsInput", {3, 4, 5, 6, 7}, {.kernel_h = 5, .kernel_w = 6}, {Activation::tanh}),
      whole("Stride2", {2, 3, 11, 10, 5}, square(3, 2, 1), {relu}),
      whole("Stride3", {2, 3, 13, 14, 5}, square(5, 3, 2)),
      whole("StrideBeyondKernel", {2, 3, 10, 10, 4}, square(2, 3)),
      whole("RectangularKernel", {2, 3, 9, 12, 6}, {.kernel_h = 2, .kernel_w = 5, .pad = {1, 2, 0, 2}}),
      whole("RectangularStride", {2, 3, 9, 12, 6}, {.kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 2}),
      whole("AsymmetricPad", {2, 4, 8, 8, 5}, {.kernel_h = 4, .kernel_w = 4, .pad = {1, 1, 2, 2}}, {relu}),
      whole("Sigmoid", {2, 3, 6, 6, 5}, square(3), {Activation::sigmoid}),
      whole("Tanh", {2, 3, 6, 6, 5}, square(3), {Activation::tanh, kAverage2}),
      whole("MaxPool", {2, 3, 10, 10, 6}, square(3, 1, 1), {kMax2}),
      whole("AveragePool", {2, 3, 10, 10, 6}, square(3, 1, 1), {relu, kAverage2}),
      whole("MaxPoolOverlapping", {2, 3, 11, 9, 6}, square(3, 1, 1), {relu, kMax3Overlapping}),
      whole("AveragePoolOverlapping", {2, 3, 11, 9, 6}, square(3, 1, 1), {relu, kAverage3Overlapping}),
      whole("MaxPoolRectangular", {2, 3, 8, 11, 6}, square(3), {relu, kMaxRectangular}),
      whole("PoolThenActivation", {2, 3, 10, 10, 6}, square(3), {kMax2, relu}),
      whole("TwoActivations", {2, 3, 6, 6, 5}, square(3), {relu, Activation::tanh}),
      whole("TwoPools", {2, 3, 14, 14, 6}, square(3), {relu, kMax2, kAverage2}),
      whole("SigmoidThenMaxPool", {2, 3, 10, 10, 6}, square(3), {Activation::sigmoid, kMax2}),
      whole("Dropout", {2, 3, 8, 8, 6}, square(3), {relu, Dropout{0.3F, 2}}),
      whole("SpatialDropout", {4, 3, 8, 7, 20}, square(3), {relu, Dropout{0.4F, 2, true}, Dropout{0.25F, 1}}),
      whole("DropoutThenPool", {2, 3, 8, 8, 6}, square(3), {Dropout{0.5F, 0}, kMax2, relu, Dropout{0.2F, 1}}),
      whole("LargerBatch", {7, 8, 6, 6, 16}, square(3, 1, 1), {relu, kMax2}),
      whole("Blocked", {3, 32, 8, 8, 32}, square(3, 1, 1), {relu, kMax2}),
      // The cpu device convolves this number of channels in two parts if its vectors hold 16 values.
      whole("FiftyChannels", {3, 50, 8, 8, 33}, square(5, 1, 2), {relu, kMax2}),
      whole("OneChannelLeftOver", {2, 33, 7, 9, 5}, {.kernel_h = 4, .kernel_w = 4, .pad = {1, 2, 2, 1}}, {relu}),
      whole("ThreeChannelsLeftOver", {2, 19, 9, 8, 20}, {.kernel_h = 2, .kernel_w = 5, .pad = {1, 2, 0, 2}}, {kMax2}),
      whole("LeftOverFirstStage", {2, 18, 8, 8, 20}, square(3, 1, 1), {relu, kMax3Overlapping}, false),
      part("LeftOverShard", {2, 50, 6, 6, 40}, square(3, 1, 1), {Activation::tanh, kAverage2}, {13, 19}),
      // The cpu device computes this case with channels last.
      whole("TwentySixChannels", {2, 26, 7, 7, 35}, square(3, 1, 1), {relu, kMaxRectangular}),
      whole("ManyChannels", {2, 260, 6, 6, 37}, square(3, 1, 1), {relu, kMax2}),
      // On some processors, the cpu device computes the input gradient of this case as a forward convolution.
      whole("ManyFilters", {1, 258, 3, 4, 260}, {.kernel_h = 3, .kernel_w = 2, .pad = {2, 0, 1, 1}},
            {Activation::tanh}),
      whole("ManyFiltersFewChannels", {2, 20, 4, 5, 300}, square(5, 1, 2), {relu, kMax2}),
      whole("ManyFiltersPointwise", {2, 256, 3, 2, 272}, square(1)),
      whole("ManyFiltersStride2", {1, 256, 4, 3, 256}, square(3, 2, 1), {relu}),
      whole("ManyChannelsStride2", {2, 40, 9, 11, 21}, square(3, 2, 1), {relu}),
      whole("ManyChannelsPointwiseStride2", {3, 260, 7, 6, 50}, square(1, 2)),
      whole("ManyChannelsWideKernel", {2, 6, 12, 15, 18}, {.kernel_h = 2, .kernel_w = 27, .pad = {1, 1, 13, 13}}),
      whole("WithoutBias", {3, 4, 7, 6, 5}, without_bias(square(3, 1, 1)), {relu}),
      whole("LeakyRelu", {2, 3, 8, 8, 5}, square(3, 1, 1), {leaky, kMax2}),
      with_adam(whole("Adam", {2, 3, 8, 8, 5}, square(3, 1, 1), {norm, relu, kMax2})),
      whole("BatchNorm", {3, 4, 6, 7, 5}, without_bias(square(3, 1, 1)), {norm}),
      whole("BatchNormWithBias", {3, 4, 6, 7, 5}, square(3, 1, 1), {norm, Activation::tanh}),
      whole("BatchNormRelu", {4, 16, 6, 6, 32}, without_bias(square(3, 1, 1)), {norm, relu}),
      whole("BatchNormReluPool", {4, 3, 8, 8, 20}, without_bias(square(3, 2, 1)), {norm, relu, kMax3Overlapping},
            false),
      whole("BatchNormAfterRelu", {3, 4, 8, 8, 6}, square(3, 1, 1), {relu, kMax2, norm, Dropout{0.25F, 1}}),
      whole("TwoBatchNorms", {4, 5, 6, 6, 7}, square(3, 1, 1), {norm, leaky, second_norm, relu, kAverage2}),
      whole("BatchNormPointwise", {5, 19, 4, 4, 47}, without_bias(square(1)), {norm, relu}),
      whole("BatchNormFiftyChannels", {3, 50, 6, 6, 33}, without_bias(square(3, 1, 1)), {norm, relu}),
      whole("Add", {2, 4, 7, 6, 5}, square(3, 1, 1), {Add{}, relu}),
      whole("ResidualEnd", {3, 16, 6, 6, 32}, without_bias(square(3, 1, 1)), {norm, Add{}, relu}),
      whole("TwoSums", {3, 5, 8, 8, 7}, square(3, 1, 1), {Add{}, kMax2, Add{}, leaky}),
      part("ShardWithSum", {3, 5, 9, 9, 20}, without_bias(square(3)), {norm, Add{}, relu, kMax2}, {7, 6}),
      weightless("Channels", StageKind::channels, {3, 11, 9, 8, 0}, {kMax3Overlapping}, {0, 11}),
      weightless("ChannelsOfAShard", StageKind::channels, {3, 11, 9, 8, 0}, {norm, relu, Add{}, kAverage2}, {3, 5}),
      weightless("ResponseNorm", StageKind::response_norm, {2, 12, 5, 6, 0}, {}, {0, 12}),
      of_norm_size(1, weightless("ResponseNormOfSizeOne", StageKind::response_norm, {2, 12, 5, 6, 0}, {}, {0, 12})),
      weightless("ResponseNormOfAShard", StageKind::response_norm, {3, 12, 6, 6, 0}, {kMax2}, {4, 3}),
      weightless("ResponseNormOfOneChannel", StageKind::response_norm, {2, 3, 5, 5, 0}, {relu}, {2, 1}),
      part("ShardWithBatchNorm", {3, 5, 9, 9, 20}, without_bias(square(3)), {norm, relu, kMax2}, {7, 6}),
      part("ShardInTheMiddle", {2, 5, 9, 9, 20}, square(3, 1, 1), {relu, kMax2}, {7, 6}),
      part("ShardOfOneFilter", {2, 5, 9, 9, 20}, square(3, 1, 1), {relu, Dropout{0.4F, 1}}, {19, 1}),
      part("ShardWithSpatialDropout", {3, 5, 9, 9, 20}, square(3), {Dropout{0.5F, 1, true}, Activation::tanh}, {3, 11}),
      part("ShardWithDropout", {2, 5, 9, 9, 20}, square(3), {kAverage2, Dropout{0.4F, 1}, Activation::tanh}, {3, 11}),
  };
}

Tensor random_tensor(const Shape& shape, std::uint64_t stream) {
  Random random(2026, stream);
  Tensor tensor(shape);
  for (float& value : tensor.span()) value = random.uniform(-1.0F, 1.0F);
  return tensor;
}

}  // namespace

void PrintTo(const StageCase& c, std::ostream* out) { *out << c.name; }

const std::vector<StageCase>& stage_cases() {
  static const std::vector<StageCase> cases = [] {
    std::vector<StageCase> all = make_cases();
    for (const StageCase& each : cases_in_groups()) all.push_back(each);
    for (const StageCase& each : cases_with_activations()) all.push_back(each);
    for (const StageCase& each : cases_with_gates()) all.push_back(each);
    for (const StageCase& each : cases_with_rates()) all.push_back(each);
    for (const StageCase& each : dilated_cases()) all.push_back(each);
    for (const StageCase& each : cases_of_norms_and_sizes()) all.push_back(each);
    return all;
  }();
  return cases;
}

const StageCase& stage_case(const std::string& name) {
  const auto found = std::ranges::find(stage_cases(), name, &StageCase::name);
  return found != stage_cases().end() ? *found : *std::ranges::find(tile_cases(), name, &StageCase::name);
}

ShardSpec smooth_case(const std::string& name) {
  ShardSpec spec = stage_case(name).spec;
  spec.stage.after = {Activation::tanh, Pooling{.kind = PoolKind::average}};
  return spec;
}

/// Random values in [-1, 1]; running variances are positive.
ShardState random_state(const ShardSpec& spec) {
  ShardState state = zero_state(spec.stage, spec.filters.count);
  std::uint64_t stream = 10;
  for_each_tensor(state, [&](Tensor& tensor) { tensor = random_tensor(tensor.shape(), ++stream); });
  for (Parameter& parameter : state.parameters) {
    if (!parameter.moments.empty()) continue;
    for (float& value : parameter.value.span()) value = 1.0F + 0.5F * value;
  }
  // Means of squares must not be negative.
  for (Parameter& parameter : state.parameters) {
    if (parameter.moments.size() < 2) continue;
    for (float& value : parameter.moments[1].span()) value = std::abs(value);
  }
  return state;
}

Tensor random_input(const ShardSpec& spec) { return random_tensor(input_shape(spec.stage, spec.batch), 5); }

std::vector<Tensor> random_added(const ShardSpec& spec) {
  std::vector<Tensor> added;
  for (const Shape& shape : added_shapes(spec.stage, spec.batch, spec.filters.count)) {
    added.push_back(random_tensor(shape, 100 + added.size()));
  }
  return added;
}

Tensor random_output_gradient(const ShardSpec& spec) {
  return random_tensor(output_shape(spec.stage, spec.batch, spec.filters.count), 6);
}

}  // namespace convoy
