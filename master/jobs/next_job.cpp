#include "master/jobs/next_job.hpp"

#include <algorithm>
#include <map>

#include "master/jobs/sampler.hpp"

namespace convoy {
namespace {

/// The last result of each trial, by its number.
std::map<int, const RungResult*> last_of_trials(const RungResults& results) {
  std::map<int, const RungResult*> last;
  for (const RungResult& each : results) last[each.trial] = &each;
  return last;
}

std::optional<Job> wanted_job(const Space& space, const Ladder& ladder, const RungResults& results,
                              const std::map<int, const RungResult*>& last) {
  if (const auto promoted = promotion_after(results, ladder, space.metric)) {
    return Job{.trial = promoted->trial, .rung = promoted->rung, .setting = last.at(promoted->trial)->setting};
  }
  const int trial = static_cast<int>(last.size()) + 1;
  if (space.budget.trials > 0 && trial > space.budget.trials) return std::nullopt;
  std::optional<TrialSetting> setting = setting_of(trial, space, results);
  if (!setting) return std::nullopt;
  return Job{.trial = trial, .rung = 0, .setting = std::move(*setting)};
}

}  // namespace

long images_of(const RungResults& results) {
  long images = 0;
  for (const auto& [trial, last] : last_of_trials(results)) images += last->images;
  return images;
}

std::optional<Job> next_job(const Space& space, const Ladder& ladder, const RungResults& results) {
  const auto last = last_of_trials(results);
  std::optional<Job> job = wanted_job(space, ladder, results, last);
  if (!job || space.budget.images == 0) return job;
  const long begun = job->rung > 0 ? last.at(job->trial)->images : 0;
  const long more = ladder.images[static_cast<std::size_t>(job->rung)] - begun;
  if (more > space.budget.images - images_of(results)) return std::nullopt;
  return job;
}

}  // namespace convoy
