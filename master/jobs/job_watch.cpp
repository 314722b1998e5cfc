#include "master/jobs/job_watch.hpp"

#include <fmt/ranges.h>

#include "core/text.hpp"

namespace convoy {

std::string text_of(const std::vector<TimedMachine>& machines) {
  std::vector<std::string> words;
  for (const TimedMachine& each : machines) {
    words.push_back(each.gflops > 0.0 ? fmt::format("{} {:.3g} GFLOP/s", each.name, each.gflops)
                                      : fmt::format("{} could not be timed", each.name));
  }
  return printable(fmt::format("machines: {}", fmt::join(words, ", ")));
}

std::string text_of(const RunningJob& job) {
  const StepReport& step = job.report;
  return printable(fmt::format("{} on {}: step {}/{}, loss {:.4f}, {:.0f} images/s, {:.0f} s left", job.job,
                               job.machine, step.step, job.steps, step.mean_loss, step.images_per_second,
                               step.seconds_left));
}

}  // namespace convoy
