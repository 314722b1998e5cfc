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

}  // namespace convoy
