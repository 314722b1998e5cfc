#include <cmath>
#include <numbers>

#include "nets/net.hpp"

namespace convoy {
namespace {

[[noreturn]] void fail_at(const Net& net, const Layer& layer, const std::string& what) {
  fail("{}:{}: layer {}: {}", net.file, layer.line, layer.name, what);
}

bool has_convolution(const Net& net) {
  for (const Layer& layer : net.layers) {
    if (std::holds_alternative<Convolution>(layer.spec)) return true;
  }
  return false;
}

const FeatureShape& input_of(const Net& net, const Layer& layer) {
  return layer.inputs[0] == kNetInput ? net.input : net.layers[static_cast<std::size_t>(layer.inputs[0])].output;
}

bool starts_head(const LayerSpec& spec) {
  return std::holds_alternative<Flatten>(spec) || std::holds_alternative<Dense>(spec) ||
         std::holds_alternative<SoftmaxCrossEntropy>(spec) || std::holds_alternative<SquaredError>(spec);
}

void add_to_trunk(const Net& net, const Layer& layer, Cut& cut) {
  if (const auto* conv = std::get_if<Convolution>(&layer.spec)) {
    const FeatureShape& in = input_of(net, layer);
    cut.trunk.push_back({.name = layer.name,
                         .channels = in.channels,
                         .height = in.height,
                         .width = in.width,
                         .conv = *conv,
                         .after = {},
                         .moments = cut.moments});
    cut.inits.push_back(layer.init);
    return;
  }
  if (cut.trunk.empty() || std::holds_alternative<ResponseNorm>(layer.spec)) {
    const auto* norm = std::get_if<ResponseNorm>(&layer.spec);
    const FeatureShape& in = input_of(net, layer);
    cut.trunk.push_back(stage_without_weights(layer.name, norm != nullptr ? StageKind::response_norm : StageKind::channels,
                                              in.channels, in.height, in.width));
    cut.trunk.back().moments = cut.moments;
    cut.inits.emplace_back();
    if (norm != nullptr) {
      cut.trunk.back().norm = *norm;
      return;
    }
  }
  std::vector<ChannelLayer>& after = cut.trunk.back().after;
  if (const auto* activation = std::get_if<Activation>(&layer.spec)) after.emplace_back(*activation);
  if (const auto* pool = std::get_if<Pooling>(&layer.spec)) after.emplace_back(*pool);
  if (const auto* norm = std::get_if<BatchNorm>(&layer.spec)) after.emplace_back(*norm);
  if (std::holds_alternative<GlobalAveragePool>(layer.spec)) {
    const FeatureShape& in = input_of(net, layer);
    after.emplace_back(Pooling{PoolKind::average, in.height, in.width, in.height, in.width, {}});
  }
  if (const auto* dropout = std::get_if<Dropout>(&layer.spec)) after.emplace_back(*dropout);
}

void add_to_head(const Net& net, const Layer& layer, Cut& cut) {
  if (std::holds_alternative<Convolution>(layer.spec) || std::holds_alternative<Pooling>(layer.spec) ||
      std::holds_alternative<GlobalAveragePool>(layer.spec) || std::holds_alternative<BatchNorm>(layer.spec) ||
      std::holds_alternative<ResponseNorm>(layer.spec)) {
    fail_at(net, layer, "convolution, pooling and normalisation come before flatten and dense layers; move it up");
  }
  cut.head.push_back(layer);
}

}  // namespace

Cut cut(const Net& net) {
  Cut cut{.trunk = {}, .maps = net.input, .head = {}};
  cut.moments = moments_of(net.training.optimizer);
  bool in_head = !has_convolution(net);
  for (const Layer& layer : net.layers) {
    in_head = in_head || starts_head(layer.spec);
    if (in_head) {
      add_to_head(net, layer, cut);
    } else {
      add_to_trunk(net, layer, cut);
      cut.maps = layer.output;
    }
  }
  validate(cut.trunk);
  return cut;
}

UpdateStep update_step(const TrainingOptions& options, double learning_rate, long step, double gradient_norm) {
  const auto t = static_cast<double>(step);
  const bool clips = options.clip > 0.0 && gradient_norm > options.clip;
  return {.optimizer = options.optimizer,
          .learning_rate = static_cast<float>(learning_rate),
          .momentum = static_cast<float>(options.momentum),
          .weight_decay = static_cast<float>(options.weight_decay),
          .beta2 = static_cast<float>(options.beta2),
          .epsilon = static_cast<float>(options.epsilon),
          .correction1 = static_cast<float>(1.0 - std::pow(options.momentum, t)),
          .correction2 = static_cast<float>(1.0 - std::pow(options.beta2, t)),
          .gradient_scale = static_cast<float>(clips ? options.clip / gradient_norm : 1.0)};
}

double learning_rate(const TrainingOptions& options, double epoch) {
  const Schedule& schedule = options.schedule;
  if (epoch < schedule.warm_up) return options.learning_rate * (0.1 + 0.9 * epoch / schedule.warm_up);
  switch (schedule.kind) {
    case Schedule::Kind::constant: break;
    case Schedule::Kind::step:
      return options.learning_rate * std::pow(schedule.factor, std::floor(epoch / schedule.every));
    case Schedule::Kind::cosine: {
      const double done = (epoch - schedule.warm_up) / (options.epochs - schedule.warm_up);
      return options.learning_rate * 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, done)));
    }
  }
  return options.learning_rate;
}

std::size_t parameter_count(const Net& net) {
  std::size_t count = 0;
  for (const Layer& layer : net.layers) {
    const FeatureShape& in = input_of(net, layer);
    if (const auto* conv = std::get_if<Convolution>(&layer.spec)) {
      count += static_cast<std::size_t>(conv->filters) *
               (static_cast<std::size_t>(in.channels * conv->kernel_h * conv->kernel_w) + (conv->bias ? 1 : 0));
    } else if (const auto* dense = std::get_if<Dense>(&layer.spec)) {
      count += static_cast<std::size_t>(dense->units) * (static_cast<std::size_t>(in.size()) + 1);
    } else if (std::holds_alternative<BatchNorm>(layer.spec)) {
      count += 2 * static_cast<std::size_t>(in.channels);
    }
  }
  return count;
}

}  // namespace convoy
