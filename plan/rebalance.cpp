#include "plan/rebalance.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "plan/planner.hpp"

namespace convoy {
namespace {

/// Returns the member of a row that is not cut along filters.
int member_of(const Row& row) { return row.shards[0].member; }

/// Returns the seconds that a member's tile takes in a step. A replicated stage computes all filters forward.
double tile_seconds(const MemberProfile& member, const Plan& plan, std::size_t index, const Tile& tile) {
  const StagePlan& stage = plan.stages[index];
  const double share = static_cast<double>(tile.samples.count) / micro_batch_size(plan);
  Timing own = predict_passes(member, index, tile.filters.count).for_samples(share).in_parts(plan.micro_batches);
  if (stage.replicated)
    own.forward = predict_passes(member, index, filters_in(stage)).in_parts(plan.micro_batches).forward;
  return own.seconds();
}

/// Returns the sum over all stages of the slowest member's time. Members do not wait for one another between stages
/// that are cut along samples alone, so the slowest member of these stages is the one that all of them together take
/// longest.
double slowest_seconds(const Plan& plan, const std::vector<MemberProfile>& profiles) {
  double sum = 0.0;
  std::vector<double> in_rows(profiles.size(), 0.0);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    double slowest = 0.0;
    for (const Tile& tile : tiles_of(plan.stages[s])) {
      const double seconds = tile_seconds(profiles[tile.member], plan, s, tile);
      if (cut_by_samples_alone(plan.stages[s])) {
        in_rows[tile.member] += seconds;
      } else {
        slowest = std::max(slowest, seconds);
      }
    }
    sum += slowest;
  }
  return sum + (in_rows.empty() ? 0.0 : *std::ranges::max_element(in_rows));
}

/// Cuts the stages that are cut along samples alone anew, all in the same rows, in proportion to the speeds of the
/// members that have rows. Each member with a row keeps a sample at least, so that the member's speed is still known.
/// The function leaves the rows unchanged where the members of the rows differ between stages.
void move_rows(Plan& plan, const std::vector<Stage>& trunk, const std::vector<MemberProfile>& profiles) {
  std::vector<std::size_t> stages;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (cut_by_samples_alone(plan.stages[s])) stages.push_back(s);
  }
  if (stages.empty()) return;
  std::vector<double> seconds(profiles.size(), 0.0);
  const std::vector<Row>& first = plan.stages[stages[0]].rows;
  for (const std::size_t s : stages) {
    if (!std::ranges::equal(plan.stages[s].rows, first, {}, member_of, member_of)) return;
    for (const Row& row : first) {
      const int member = member_of(row);
      seconds[member] += predict_seconds(profiles[member], s, trunk[s].conv.filters);
    }
  }
  std::vector<double> speeds;
  for (const double each : seconds) speeds.push_back(each > 0.0 && std::isfinite(each) ? 1.0 / each : 0.0);
  if (std::ranges::count_if(speeds, [](double speed) { return speed > 0.0; }) < static_cast<int>(first.size())) return;
  std::vector<int> samples = apportion(micro_batch_size(plan), speeds);
  for (const Row& row : first) {
    int& own = samples[member_of(row)];
    if (own > 0) continue;
    --*std::ranges::max_element(samples);
    own = 1;
  }
  for (const std::size_t s : stages) plan.stages[s] = rows_of(trunk[s], samples, speeds);
}

}  // namespace

std::vector<MemberProfile> corrected(const std::vector<MemberProfile>& profiles, const Plan& plan,
                                     const MeasuredTimes& measured) {
  std::vector<MemberProfile> now = profiles;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    std::vector<double> factors(profiles.size(), 0.0);
    double sum = 0.0;
    int known = 0;
    for (const Tile& tile : tiles_of(plan.stages[s])) {
      const auto member = static_cast<std::size_t>(tile.member);
      const double predicted = tile_seconds(profiles[member], plan, s, tile);
      if (!(measured[member][s] > 0.0) || !(predicted > 0.0)) continue;
      factors[member] = measured[member][s] / predicted;
      sum += factors[member];
      ++known;
    }
    if (known == 0) continue;
    for (std::size_t m = 0; m < now.size(); ++m) {
      const double factor = factors[m] > 0.0 ? factors[m] : sum / known;
      for (Timing& timing : now[m].stages[s]) timing = timing.times(factor);
    }
  }
  return now;
}

std::optional<Plan> rebalanced(const std::vector<Stage>& trunk, const Plan& plan,
                               const std::vector<MemberProfile>& profiles, double margin) {
  std::vector<MemberProfile> members = profiles;
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (!has_tiles(plan, static_cast<int>(m))) members[m].stages.assign(trunk.size(), {});
  }
  Plan shares = plan;  // of filters
  try {
    shares = make_plan(trunk, plan.batch, members);
  } catch (const Error&) {
    // There may be no other shares that fit. The shares of the current plan do.
  }
  Plan better = plan;
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    // The choice of split stages stays as it is.
    std::vector<Row>& rows = better.stages[s].rows;
    if (rows.size() == 1 && !everywhere(shares.stages[s])) rows[0].shards = shares.stages[s].rows[0].shards;
  }
  const std::vector<StagePlan> in_shards = better.stages;
  move_rows(better, trunk, profiles);
  const auto fits = [&] { return fits_in_memory(better, trunk, make_task_graph(better, trunk), profiles); };
  if (!fits()) {
    better.stages = in_shards;
    if (!fits()) return std::nullopt;
  }
  if (slowest_seconds(better, profiles) >= (1.0 - margin) * slowest_seconds(plan, profiles)) return std::nullopt;
  return better;
}

void Rebalancer::begin(const Plan& plan) {
  sums_.assign(plan.members.size(), {.stages = std::vector<double>(plan.stages.size(), 0.0)});
}

void Rebalancer::add(std::size_t member, const std::vector<double>& stages) {
  Sums& sums = sums_[member];
  if (sums.to_skip > 0) {
    --sums.to_skip;
    return;
  }
  ++sums.steps;
  for (std::size_t s = 0; s < sums.stages.size(); ++s) sums.stages[s] += stages[s];
}

std::optional<Plan> Rebalancer::better(const std::vector<Stage>& trunk, const Plan& plan) {
  if (options_.profiles.empty()) return std::nullopt;
  for (std::size_t m = 0; m < sums_.size(); ++m) {
    if (has_tiles(plan, static_cast<int>(m)) && sums_[m].steps < steps_to_judge_) return std::nullopt;
  }
  MeasuredTimes means;
  for (Sums& sums : sums_) {
    for (double& seconds : sums.stages) seconds /= std::max(1, sums.steps);
    means.push_back(sums.stages);
    sums = {.to_skip = 0, .stages = std::vector<double>(sums.stages.size(), 0.0)};
  }
  auto found = rebalanced(trunk, plan, corrected(options_.profiles, plan, means), options_.margin);
  if (found) steps_to_judge_ *= 2;
  return found;
}

}  // namespace convoy
