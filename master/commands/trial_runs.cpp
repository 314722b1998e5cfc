#include "master/commands/trial_runs.hpp"

#include <algorithm>

namespace convoy {

Net TrialRuns::net_of(const Job& job) const {
  Net net = net_with(common_.train.net.net, common_.fixed, common_.space, job.setting);
  if (net.training.batch > common_.images) {
    fail("the batch has {} images, but there are only {}", net.training.batch, common_.images);
  }
  return net;
}

long TrialRuns::steps_at(const Net& net, int rung) const {
  const long batch = net.training.batch;
  const long all = static_cast<long>(net.training.epochs) * (common_.images / batch);
  if (!common_.space.rungs) return all;
  return std::min(all, (common_.ladder.images[rung] + batch - 1) / batch);
}

TrainOptions TrialRuns::options_of(const Job& job, long steps) const {
  TrainOptions options = common_.train;
  options.net.set = common_.fixed;
  for (std::size_t i = 0; i < job.setting.size(); ++i) {
    options.net.set.push_back(fmt::format("{}={}", common_.space.parameters[i].name, job.setting[i]));
  }
  options.out = folder_of(job.trial);
  options.steps = steps;
  return options;
}

std::string TrialRuns::folder_of(int trial) const { return fmt::format("{}/trials/{:04}", common_.folder, trial); }

void TrialRuns::expect_at(const Job& job, long step, long expected) const {
  if (step == expected) return;
  fail(
      "{}: the checkpoint is that of step {}, but rung {} of the trial ends at step {}; move this folder away, and "
      "the search trains the trial again",
      folder_of(job.trial), step, job.rung + 1, expected);
}

}  // namespace convoy
