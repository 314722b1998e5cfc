#include <cmath>
#include <numbers>

#include "nets/graph/net.hpp"

namespace convoy {

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
  const auto cosine = [&](double begin, double end) {
    const double done = (epoch - begin) / (end - begin);
    return options.learning_rate * 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, done)));
  };
  switch (schedule.kind) {
    case Schedule::Kind::constant: break;
    case Schedule::Kind::step:
      return options.learning_rate * std::pow(schedule.factor, std::floor(epoch / schedule.every));
    case Schedule::Kind::cosine: return cosine(schedule.warm_up, options.epochs);
    case Schedule::Kind::snapshots: {
      const int length = options.epochs / options.cycles;
      const double begin = length * std::min(std::floor(epoch / length), options.cycles - 1.0);
      return cosine(std::max(begin, schedule.warm_up), begin + length);
    }
  }
  return options.learning_rate;
}

int cycle_ending_at(const TrainingOptions& options, int epochs) {
  if (options.schedule.kind != Schedule::Kind::snapshots) return 0;
  const int length = options.epochs / options.cycles;
  return epochs % length == 0 ? epochs / length : 0;
}

}  // namespace convoy
