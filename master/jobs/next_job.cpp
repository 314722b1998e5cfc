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

/// The rungs that are finished, and those that are under way or count as such.
struct Known {
  const RungResults& results;
  const std::vector<Job>& open;
};

int trials_in(const Known& known) {
  const auto begins = [](const auto& each) { return each.rung == 0; };
  return static_cast<int>(std::ranges::count_if(known.results, begins) + std::ranges::count_if(known.open, begins));
}

std::optional<Job> wanted_job(const Space& space, const Ladder& ladder, const Known& known,
                              const std::map<int, const RungResult*>& last) {
  if (const auto promoted = promotion_after(known.results, ladder, space.metric, known.open)) {
    return Job{.trial = promoted->trial, .rung = promoted->rung, .setting = last.at(promoted->trial)->setting};
  }
  const int trial = trials_in(known) + 1;
  if (space.budget.trials > 0 && trial > space.budget.trials) return std::nullopt;
  std::optional<TrialSetting> setting = setting_of(trial, space, known.results, known.open);
  if (!setting) return std::nullopt;
  return Job{.trial = trial, .rung = 0, .setting = std::move(*setting)};
}

/// The images of all trials at the end of the rungs that are under way.
long images_at_end(const Ladder& ladder, const Known& known) {
  std::map<int, long> images;
  for (const RungResult& each : known.results) images[each.trial] = each.images;
  for (const Job& each : known.open) images[each.trial] = ladder.images[each.rung];
  long sum = 0;
  for (const auto& [trial, of_trial] : images) sum += of_trial;
  return sum;
}

std::optional<Job> job_after(const Space& space, const Ladder& ladder, const Known& known) {
  const auto last = last_of_trials(known.results);
  std::optional<Job> job = wanted_job(space, ladder, known, last);
  if (!job || space.budget.images == 0) return job;
  const long begun = job->rung > 0 ? last.at(job->trial)->images : 0;
  const long more = ladder.images[job->rung] - begun;
  if (more > space.budget.images - images_at_end(ladder, known)) return std::nullopt;
  return job;
}

}  // namespace

long images_of(const RungResults& results) {
  long images = 0;
  for (const auto& [trial, last] : last_of_trials(results)) images += last->images;
  return images;
}

std::optional<Job> next_job(const Space& space, const Ladder& ladder, const RungResults& results) {
  return next_job(space, ladder, results, {}, 1);
}

std::optional<Job> next_job(const Space& space, const Ladder& ladder, const RungResults& results,
                            const std::vector<Job>& open, std::size_t at_once) {
  if (open.size() >= at_once) return std::nullopt;
  const std::size_t before = results.size() + open.size();  // decisions
  const std::size_t least = before + 1 > at_once ? before + 1 - at_once : 0;
  for (std::size_t count = least; count <= results.size(); ++count) {
    const auto end = results.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<Job> under_way;
    for (auto each = end; each != results.end(); ++each) under_way.push_back({each->trial, each->rung, each->setting});
    under_way.insert(under_way.end(), open.begin(), open.end());
    const RungResults known(results.begin(), end);
    if (std::optional<Job> job = job_after(space, ladder, {known, under_way})) return job;
  }
  return std::nullopt;
}

}  // namespace convoy
