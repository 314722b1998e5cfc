#include <algorithm>
#include <cmath>

#include "core/random.hpp"
#include "model/heads.hpp"

namespace convoy {
namespace {

/// The first of the random streams for initial weights. Each layer with weights has a stream of its own, in order.
constexpr std::uint64_t kWeightStream = std::uint64_t{1} << 32;

/// Draws the weights of one layer. `window` is the number of elements in a filter's window, or 1 for a dense layer. Of
/// the inputs under a filter, `share` are not always 0.
void draw(Tensor& weights, const Initialisation& init, bool before_relu, int window, Random random,
          double share = 1.0) {
  using Kind = Initialisation::Kind;
  if (init.kind == Kind::constant) {
    std::ranges::fill(weights.span(), static_cast<float>(init.value));
    return;
  }
  const auto fan_in = static_cast<float>(share * static_cast<double>(weights.shape().sample_size()));
  float variance = (before_relu || init.kind == Kind::he ? 2.0F : 1.0F) / fan_in;
  if (init.kind == Kind::xavier) variance = 2.0F / (fan_in + static_cast<float>(weights.shape().n * window));
  const float deviation = std::sqrt(variance);
  for (float& weight : weights.span()) weight = deviation * random.normal();
}

/// Whether the activation leaves about half of the mean square of its input, as a ReLU does. Of standard normal input a
/// SiLU, hard swish or GELU leaves 0.35 to 0.43, an ELU 0.64. A SELU starts with a variance of 1 / inputs in its paper.
bool is_like_relu(const Activation& activation) {
  switch (activation.kind) {
    case Activation::Kind::clip: return activation.alpha == 0.0F;
    case Activation::Kind::relu:
    case Activation::Kind::elu:
    case Activation::Kind::silu:
    case Activation::Kind::hard_swish:
    case Activation::Kind::gelu:
    case Activation::Kind::gelu_tanh:
    case Activation::Kind::mish:
    case Activation::Kind::celu: return true;
    default: return false;
  }
}

/// Whether the first activation after the convolution is like a ReLU. The layers between them, such as pooling or
/// dropout, do not matter for the initialisation.
bool first_activation_is_relu(const Stage& stage) {
  for (const ChannelLayer& layer : stage.after) {
    if (const auto* activation = std::get_if<Activation>(&layer)) return is_like_relu(*activation);
  }
  return false;
}

/// Returns the share of the inputs under a filter that are not the zeros of spread maps, as a transposed convolution
/// has them.
double share_of_inputs(const std::vector<Stage>& trunk, std::size_t stage) {
  const Source source = reads_of(trunk, stage)[0][0];
  if (source.stage < 0) return 1.0;
  const Stage& from = trunk[source.stage];
  const Resizing& by = from.resizing;
  const bool spread = from.kind == StageKind::resize && by.mode == Resizing::Mode::spread;
  return spread ? 1.0 / (by.rows.step * by.columns.step) : 1.0;
}

bool relu_follows(const std::vector<Layer>& head, const std::string& dense) {
  const auto place = std::find_if(head.begin(), head.end(), [&](const Layer& layer) { return layer.name == dense; });
  for (auto layer = place + 1; layer < head.end() && !std::holds_alternative<Dense>(layer->spec); ++layer) {
    if (const auto* activation = std::get_if<Activation>(&layer->spec)) return is_like_relu(*activation);
  }
  return false;
}

}  // namespace

std::vector<ShardState> initial_trunk(const Cut& cut, std::uint64_t seed) {
  std::vector<ShardState> states;
  for (const Stage& stage : cut.trunk) {
    states.push_back(zero_state(stage, stage.conv.filters));
    if (stage.kind != StageKind::convolution) continue;
    const std::size_t number = states.size() - 1;
    const Initialisation init = number < cut.inits.size() ? cut.inits[number] : Initialisation{};
    draw(states.back().weights(), init, first_activation_is_relu(stage), stage.conv.kernel_h * stage.conv.kernel_w,
         Random(seed, kWeightStream + states.size()), share_of_inputs(cut.trunk, number));
  }
  return states;
}

std::vector<DenseState<float>> initial_heads(const Cut& cut, std::uint64_t seed) {
  std::vector<DenseState<float>> states = Heads(cut, 1).states();
  std::uint64_t stream = kWeightStream + cut.trunk.size();
  auto state = states.begin();
  for (const CutHead& head : cut.heads) {
    for (const Layer& layer : head.layers) {
      if (!std::holds_alternative<Dense>(layer.spec)) continue;
      draw((state++)->weights.value, layer.init, relu_follows(head.layers, layer.name), 1, Random(seed, ++stream));
    }
  }
  return states;
}

}  // namespace convoy
