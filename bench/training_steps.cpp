#include "bench/training_steps.hpp"

#include <fmt/core.h>

#include "core/random.hpp"
#include "master/cluster/head_place.hpp"

namespace convoy {
namespace {

Net net_for(const std::string& file, std::vector<std::string> set, int batch) {
  set.push_back(fmt::format("training.batch={}", batch));
  return read_net(file, set);
}

}  // namespace

TrainingSteps::TrainingSteps(const std::string& net, std::vector<std::string> set, int batch, const std::string& device,
                             const DeviceOptions& options)
    : net_(net_for(net, std::move(set), batch)),
      parts_(cut(net_)),
      device_(make_device(device, options)),
      images_(noise_images({batch, net_.input.channels, net_.input.height, net_.input.width}, 1, 2)),
      trunk_(parts_.trunk, images_.shape(), *device_),
      learner_(trunk_, parts_, batch, place_of_heads({.device_options = options}, parts_, batch, *device_)) {
  learner_.load({std::make_shared<const ModelState>(ModelState{initial_trunk(parts_, 1), initial_heads(parts_, 1)})});
  Random random(1, 1);
  for (int i = 0; i < batch; ++i)
    labels_.push_back(static_cast<int>(random.below(static_cast<std::uint32_t>(net_.classes))));
}

double TrainingSteps::step() {
  const BatchLoss loss = train_step(learner_, images_, labels_, {.training = true, .seed = 1},
                                    [](double) { return UpdateStep{.learning_rate = 1e-4F, .momentum = 0.9F}; });
  device_->finish();
  return loss.sum;
}

double TrainingSteps::test() {
  learner_.outputs(images_);
  return learner_.test_loss(labels_, images_.shape().n).sum;
}

}  // namespace convoy
