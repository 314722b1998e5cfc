#include "master/jobs/sampler.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "master/jobs/tpe.hpp"

namespace convoy {
namespace {

constexpr std::size_t kRandomTrials = 10;  ///< before the estimator has anything to go by
constexpr int kMostDraws = 100;
/// Streams of the search's seed from which each trial draws its setting.
constexpr std::uint64_t kSettingStream = std::uint64_t{3} << 32;

/// The number of a parameter's values in a grid.
long steps_of_grid(const SearchedField& parameter) {
  const long count = count_of(parameter);
  if (parameter.steps == 0) return count;
  return count == 0 ? parameter.steps : std::min<long>(parameter.steps, count);
}

/// Value `index` of a parameter in a grid: both ends and evenly between them, or each choice.
std::string value_in_grid(const SearchedField& parameter, long index) {
  const long steps = steps_of_grid(parameter);
  const long count = count_of(parameter);
  if (count == 0) return value_at(parameter, static_cast<double>(index) / static_cast<double>(steps - 1));
  const long place = steps == count ? index : (index * (count - 1) + (steps - 1) / 2) / (steps - 1);
  return value_at(parameter, (static_cast<double>(place) + 0.5) / static_cast<double>(count));
}

std::optional<TrialSetting> setting_in_grid(long index, const Space& space) {
  if (index >= size_of_grid(space)) return std::nullopt;
  TrialSetting setting(space.parameters.size());
  for (std::size_t i = space.parameters.size(); i-- > 0;) {
    const long steps = steps_of_grid(space.parameters[i]);
    setting[i] = value_in_grid(space.parameters[i], index % steps);
    index /= steps;
  }
  return setting;
}

TrialSetting random_setting(const Space& space, Random& random) {
  TrialSetting setting;
  for (const SearchedField& each : space.parameters)
    setting.push_back(value_at(each, static_cast<double>(random.uniform())));
  return setting;
}

/// The results by which the next setting is chosen, and the settings of trials that are under way to such a result.
struct Guide {
  std::vector<Observation> seen;
  std::vector<TrialSetting> running;
};

/// Takes the results on the highest rung that enough trials have finished.
Guide guide_in(const RungResults& results, const std::vector<Job>& open, const Space& space) {
  std::map<int, std::vector<Observation>> on;
  for (const RungResult& each : results) {
    on[each.rung].push_back({.setting = each.setting, .cost = cost_of(each, space.metric)});
  }
  for (auto rung = on.rbegin(); rung != on.rend(); ++rung) {
    const std::size_t enough = rung->first == 0 ? kRandomTrials : space.parameters.size() + 3;
    if (rung->second.size() < enough) continue;
    Guide guide{.seen = std::move(rung->second), .running = {}};
    for (const Job& each : open) {
      if (each.rung <= rung->first) guide.running.push_back(each.setting);
    }
    return guide;
  }
  return {};
}

}  // namespace

long size_of_grid(const Space& space) {
  long size = 1;
  for (const SearchedField& each : space.parameters) size *= steps_of_grid(each);
  return size;
}

std::optional<TrialSetting> setting_of(int trial, const Space& space, const RungResults& results,
                                       const std::vector<Job>& open) {
  if (space.method == Method::grid) return setting_in_grid(trial - 1, space);
  std::set<TrialSetting> tried;
  for (const RungResult& each : results) tried.insert(each.setting);
  for (const Job& each : open) tried.insert(each.setting);
  const Guide guide = space.method == Method::tpe ? guide_in(results, open, space) : Guide();
  const bool guided = tried.size() > 1 && guide.seen.size() >= 2 && trial > static_cast<int>(kRandomTrials);
  Random random(space.seed, kSettingStream + static_cast<std::uint64_t>(trial));
  TrialSetting setting;
  for (int draws = 0; draws < kMostDraws; ++draws) {
    setting = guided ? tpe_setting(space, guide.seen, guide.running, random) : random_setting(space, random);
    if (!tried.contains(setting)) break;
  }
  return setting;
}

}  // namespace convoy
