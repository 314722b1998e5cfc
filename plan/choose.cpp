#include "plan/choose.hpp"
#include "plan/planner.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "core/shard_state.hpp"
#include "core/thread_team.hpp"
#include "plan/families.hpp"
#include "plan/needs.hpp"

namespace convoy {
namespace {

constexpr double kUntried = std::numeric_limits<double>::infinity();  // cost before a plan was tried
/// Families that are simulated at once. The number is the same on all machines, so that all choose the same plan.
constexpr std::size_t kAtOnce = 2;
constexpr int kMostThreads = 16;
/// Of so few members, smaller teams and both kinds of cuts are simulated even where they cannot be faster, so that
/// people see what a machine or a cut is worth. With more members, each such simulation takes long.
constexpr std::size_t kFewMembers = 8;
/// Below so many tiles, threads would take longer to start than the planning.
constexpr std::size_t kTilesForThreads = 200;

class Chooser {
 public:
  Chooser(const std::vector<Stage>& trunk, int batch, const std::vector<MemberProfile>& members, const Wishes& wishes,
          const MasterProfile& master)
      : trunk_(trunk),
        batch_(batch),
        members_(members),
        wishes_(wishes),
        master_(master),
        everyone_(members.size()),
        threads_(trunk.size() * members.size() < kTilesForThreads ? 1 : std::min(hardware_threads(), kMostThreads)) {
    std::iota(everyone_.begin(), everyone_.end(), std::size_t{0});
  }

  /// Tries all families with all members, and then with fewer and fewer.
  Choice choose() {
    expect_known_power();
    std::optional<Tried> best = try_families(everyone_);
    if (!best) {
      wishes_.layout = Layout::filters;
      best = try_families(everyone_);
    }
    if (!best) refuse_size(trunk_, batch_, members_);
    for (const Team& team : smaller_teams()) {
      if (members_.size() > kFewMembers && least_of(team) >= kWorthLeavingOut * best->cost) continue;
      std::optional<Tried> next = try_families(team);
      if (next && next->cost < kWorthLeavingOut * best->cost) best = std::move(next);
    }
    choice_.plan = std::move(best->plan);
    choice_.predicted = std::move(best->predicted);
    choice_.energy = std::move(best->energy);
    std::ranges::stable_sort(choice_.alternatives, {}, [this](const Alternative& each) {
      return convoy::cost_of(wishes_.objective, each.seconds, each.joules);
    });
    return std::move(choice_);
  }

 private:
  /// Members that share the work, in ascending order.
  using Team = std::vector<std::size_t>;

  /// Throws Error where the objective needs the power of machines that is not known.
  void expect_known_power() const {
    if (wishes_.objective == Objective::time) return;
    const std::vector<std::string> unknown = energy_alone(1.0, members_, master_, wishes_.terms).unknown;
    if (unknown.empty()) return;
    fail(
        "--objective {}: the watts of {} are not known; give --assume-watts, a description with watts such as "
        "4x240@1000/5:25:8, or the calibration.json of a run in which each machine had a meter",
        to_string(wishes_.objective), fmt::join(unknown, ", "));
  }

  /// Returns the teams of the fastest members, and of those that take the fewest joules where energy counts.
  std::vector<Team> smaller_teams() const {
    std::vector<Team> teams{everyone_};
    for (const bool by_energy : {false, true}) {
      if (by_energy && wishes_.objective == Objective::time) continue;
      Team order = everyone_;
      std::ranges::stable_sort(order, {}, [&](std::size_t m) { return by_energy ? joules(m) : burden(members_[m]); });
      for (std::size_t count = fewer(order.size()); count > 0; count = fewer(count)) {
        Team team(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
        std::ranges::sort(team);
        if (std::ranges::find(teams, team) == teams.end()) teams.push_back(std::move(team));
      }
    }
    teams.erase(teams.begin());
    return teams;
  }

  /// Returns the joules that a member would add to a step if it computed everything.
  double joules(std::size_t member) const {
    const MemberProfile& profile = members_[member];
    const double assumed = wishes_.terms.assumed_watts;
    const Power power = profile.power.value_or(Power{assumed, assumed, assumed});
    const double above = power.compute - (wishes_.terms.idle_off ? 0.0 : power.idle);
    return above * seconds_alone(trunk_, profile, batch_, {});
  }

  /// Returns the next number of members to try: one fewer, or three quarters where there are many.
  static std::size_t fewer(std::size_t count) { return count <= 8 ? count - 1 : count * 3 / 4; }

  /// Returns the seconds that a member would take for its part if all members were like it: computing, and receiving
  /// all maps.
  double burden(const MemberProfile& member) const {
    double bytes = 0.0;
    for (const Stage& stage : trunk_) {
      const std::size_t values = input_shape(stage, batch_).size();
      const bool images = &stage == &trunk_.front();
      bytes += static_cast<double>(images ? values : bytes_of(wishes_.wire, values));
    }
    const double rate = std::min(member.link.in, member.link.out);
    return seconds_alone(trunk_, member, batch_, {}) / static_cast<double>(members_.size()) +
           (rate > 0.0 ? bytes / rate : 0.0);
  }

  /// Returns the seconds that the trunk would take if a team's members shared each stage to perfection and nothing
  /// travelled; 0 for other objectives than time.
  double least_of(const Team& team) const {
    if (wishes_.objective != Objective::time) return 0.0;
    double seconds = 0.0;
    for (std::size_t s = 0; s < trunk_.size(); ++s) {
      double speed = 0.0;
      for (const std::size_t m : team) speed += 1.0 / predict_seconds(members_[m], s, trunk_[s].conv.filters);
      if (speed > 0.0) seconds += 1.0 / speed;
    }
    return seconds;
  }

  /// Returns the shares of filters for a team, which all forms begin with, or nothing where its members could not be
  /// timed for all stages. Forms that do not fit in the members' memory are left out later.
  std::optional<Plan> shares(const Team& team) const {
    std::vector<MemberProfile> chosen = members_;
    for (const std::size_t m : everyone_) {
      if (!std::ranges::binary_search(team, m)) chosen[m].stages.assign(trunk_.size(), {});
    }
    return shares_of_filters(trunk_, batch_, std::move(chosen), wishes_.exchange.value_or(Exchange::ring),
                             wishes_.wire);
  }

  /// Cuts the first stages along samples, in proportion to the speeds of the team's members. Returns false where one
  /// member would get all samples.
  bool cut_by_samples(Plan& plan, std::size_t stages, const Team& team) const {
    std::vector<double> speeds(members_.size(), 0.0);
    for (const std::size_t m : team) {
      double seconds = 0.0;
      for (std::size_t s = 0; s < stages; ++s) seconds += predict_seconds(members_[m], s, trunk_[s].conv.filters);
      speeds[m] = 1.0 / seconds;
    }
    const double fastest = *std::ranges::max_element(speeds);
    if (!(fastest > 0.0 && std::isfinite(fastest))) return false;  // no member was timed for all of the stages
    return convoy::cut_by_samples(plan, trunk_, stages, speeds);
  }

  struct Tried {
    Plan plan;
    Simulated predicted;
    StepEnergy energy;
    double cost;  ///< the value of the objective, by cost_of
    Alternative alternative;
  };

  /// Runs job(0) .. job(count - 1), each once, on the threads.
  void each(std::size_t count, const std::function<void(std::size_t)>& job) {
    std::atomic<std::size_t> next = 0;
    threads_.run([&](int) {
      for (std::size_t i = next++; i < count; i = next++) job(i);
    });
  }

  /// Returns a plan of this form with the shares, or nothing where the team's members cannot share samples.
  std::optional<Plan> plan_of(const Form& form, const Team& team, Plan plan) const {
    plan.wire = wishes_.wire;
    plan.exchange = form.exchange;
    set_micro_batches(plan, form.micro_batches);
    plan.relayed = form.relayed;
    for (std::size_t s = 0; s < form.replicated; ++s) {
      if (!has_parameters(trunk_[s])) plan.stages[s] = {};  // all compute it whole, so there are no shards
      plan.stages[s].replicated = true;
    }
    if (form.by_samples > 0 && !cut_by_samples(plan, form.by_samples, team)) return std::nullopt;
    return plan;
  }

  /// What no plan of a family can be better than.
  struct Bound {
    double cost = 0.0;
    double seconds = 0.0;
    std::optional<double> joules = {};
  };

  /// A family that is tried, with the plan of its fewest micro-batches.
  struct Trial {
    std::size_t family = 0;
    Plan first;
    Bound least = {};
    bool always = false;
    std::vector<Tried> tried = {};
  };

  bool hopeless(const Bound& bound) const { return bound.cost > least_ / kWorthwhile; }

  /// Tries the families whose busiest processor or card allows the best step first, and leaves out those that cannot be
  /// better than the best plan so far. The first is always tried, and with all members one of filters and one of
  /// samples is at least listed. Of smaller teams the maps alone decide at first, which takes much less time. Returns
  /// the simplest plan of which no other is much better.
  std::optional<Tried> try_families(const Team& team) {
    const std::optional<Plan> shared = shares(team);
    if (!shared) return std::nullopt;
    const std::vector<Family> all = families(trunk_, batch_, wishes_);
    std::vector<Trial> trials;
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::optional<Plan> first = plan_of(all[i].front(), team, *shared);
      if (!first) continue;
      trials.push_back({.family = i, .first = std::move(*first)});
    }
    each(trials.size(), [&](std::size_t i) {
      trials[i].least = team == everyone_ ? bound_of(trials[i].first) : bound_of_maps(trials[i].first);
    });
    std::ranges::stable_sort(trials, {}, [](const Trial& trial) { return trial.least.cost; });
    std::set<bool> kinds;  // whether a family that was tried is cut along samples
    for (std::size_t next = 0; next < trials.size();) {
      std::vector<Trial*> some;
      for (; next < trials.size() && some.size() < kAtOnce; ++next) {
        Trial& trial = trials[next];
        const bool by_samples = all[trial.family].front().by_samples > 0;
        const bool first_of_kind = team == everyone_ && kinds.insert(by_samples).second;
        trial.always = next == 0 || (first_of_kind && members_.size() <= kFewMembers);
        if (trial.always || !hopeless(trial.least)) {
          some.push_back(&trial);
        } else if (first_of_kind) {
          Alternative listed = alternative(trial.first, team);
          listed.at_least = true;
          listed.seconds = trial.least.seconds;
          listed.joules = trial.least.joules;
          choice_.alternatives.push_back(std::move(listed));
        }
      }
      each(some.size(), [&](std::size_t i) { try_family(all[some[i]->family], team, *shared, *some[i]); });
      for (const Trial* trial : some) {
        for (const Tried& tried : trial->tried) {
          choice_.alternatives.push_back(tried.alternative);
          least_ = std::min(least_, tried.cost);
        }
      }
    }
    // Simple plans come first, and a plan that is barely better does not replace them.
    std::ranges::sort(trials, {}, &Trial::family);
    std::optional<Tried> best;
    for (Trial& trial : trials) {
      for (Tried& tried : trial.tried) {
        if (!best || tried.cost <= kWorthwhile * best->cost) best = std::move(tried);
      }
    }
    if (best) try_early_sums(*best, team);
    return best;
  }

  /// Tries more and more early sums until they gain nothing, and replaces a plan by a much better one.
  void try_early_sums(Tried& best, const Team& team) {
    std::optional<Tried> early;
    for (const int count : early_sums_to_try(best.plan, trunk_)) {
      Plan plan = best.plan;
      plan.early_sums = count;
      const TaskGraph graph = make_task_graph(plan, trunk_);
      const ClusterModel cluster = measured_cluster(plan, trunk_, members_, master_, &graph);
      Tried tried = simulated(plan, team, graph, cluster);
      if (early && tried.cost >= early->cost) break;
      early = std::move(tried);
    }
    if (!early) return;
    choice_.alternatives.push_back(early->alternative);
    least_ = std::min(least_, early->cost);
    if (early->cost <= kWorthwhile * best.cost) best = std::move(*early);
  }

  /// Returns the seconds in which the members' cards receive the maps of others for a forward pass; 0 for other
  /// objectives than time.
  Bound bound_of_maps(const Plan& plan) const {
    if (wishes_.objective != Objective::time) return {};
    const ClusterModel cluster = measured_cluster(plan, trunk_, members_, master_);
    const Needs needs = find_needs(plan, trunk_, outputs_of(trunk_), master_of(plan));
    std::vector<double> bytes(cluster.links.size(), 0.0);
    for (const auto& [value, boxes] : needs.read) {
      if (value == Source::kImages || everywhere(plan.stages[value]) || plan.stages[value].replicated) continue;
      const Stage& stage = trunk_[value];
      for (const auto& [node, box] : boxes) {
        const Box own = common(tile_of(plan.stages[value], node).box(), box);
        const auto values = [&](const Box& of) {
          return static_cast<double>(output_shape(stage, of.samples.count, of.channels.count).size());
        };
        bytes[node] += values(box) - values(own);
      }
    }
    double seconds = 0.0;
    const double of_value = static_cast<double>(bytes_of(plan.wire, 1U << 20U)) / (1U << 20U) * plan.micro_batches;
    for (std::size_t n = 0; n < bytes.size(); ++n)
      seconds = std::max(seconds, of_value * bytes[n] / cluster.links[n].in);
    return {.cost = seconds, .seconds = seconds};
  }

  Bound bound_of(const Plan& plan) const {
    const TaskGraph graph = make_task_graph(plan, trunk_);
    return bound_of(graph, plan, measured_cluster(plan, trunk_, members_, master_, &graph));
  }
  Bound bound_of(const TaskGraph& graph, const Plan& plan, const ClusterModel& cluster) const {
    const Simulated step = least_step(graph, plan, trunk_, cluster);
    const StepEnergy energy = energy_of(step, members_, master_, wishes_.terms);
    return {.cost = cost_of(step, energy), .seconds = step.seconds, .joules = energy.joules()};
  }

  Alternative alternative(const Plan& plan, const Team& team) const {
    return {.text = fmt::format("{} of {} member{}, {}", team.size(), members_.size(), members_.size() == 1 ? "" : "s",
                                describe(plan)),
            .layout = std::ranges::any_of(plan.stages, has_several_rows) ? Layout::samples : Layout::filters};
  }

  /// Simulates a plan, whose graph is `graph`.
  Tried simulated(const Plan& plan, const Team& team, const TaskGraph& graph, const ClusterModel& cluster) const {
    Simulated predicted = simulate(graph, plan, trunk_, cluster);
    StepEnergy energy = energy_of(predicted, members_, master_, wishes_.terms);
    const double cost = cost_of(predicted, energy);
    Alternative listed = alternative(plan, team);
    listed.seconds = predicted.seconds;
    listed.joules = energy.joules();
    return {plan, std::move(predicted), std::move(energy), cost, std::move(listed)};
  }

  /// Tries more and more micro-batches until twice in a row they gain nothing.
  void try_family(const Family& family, const Team& team, const Plan& shares, Trial& trial) const {
    double best = kUntried;
    int vain = 0;
    for (const Form& form : family) {
      const bool first = &form == &family.front();
      std::optional<Plan> plan = first ? std::move(trial.first) : plan_of(form, team, shares);
      if (!plan) continue;
      const TaskGraph graph = make_task_graph(*plan, trunk_);
      if (!fits_in_memory(*plan, trunk_, graph, members_)) return;
      const ClusterModel cluster = measured_cluster(*plan, trunk_, members_, master_, &graph);
      if (first && !trial.always && hopeless(bound_of(graph, *plan, cluster))) return;
      trial.tried.push_back(simulated(*plan, team, graph, cluster));
      const double cost = trial.tried.back().cost;
      vain = cost < best ? 0 : vain + 1;
      best = std::min(best, cost);
      if (vain == 2) break;
    }
  }

  double cost_of(const Simulated& step, const StepEnergy& energy) const {
    return convoy::cost_of(wishes_.objective, step.seconds, energy.joules());
  }

  const std::vector<Stage>& trunk_;
  int batch_;
  const std::vector<MemberProfile>& members_;
  Wishes wishes_;
  const MasterProfile& master_;
  Team everyone_;
  ThreadTeam threads_;
  Choice choice_;
  double least_ = kUntried;  ///< cost of the best plan that was simulated
};

}  // namespace

Choice choose_plan(const std::vector<Stage>& trunk, int batch, const std::vector<MemberProfile>& members,
                   const Wishes& wishes, const MasterProfile& master) {
  if (wishes.exchange) expect_fits(*wishes.exchange, trunk);
  return Chooser(trunk, batch, members, wishes, master).choose();
}

double seconds_alone(const std::vector<Stage>& trunk, const MemberProfile& member, int batch, const HeadTimes& head) {
  double seconds = head.pass(batch) + head.update;
  for (std::size_t s = 0; s < trunk.size(); ++s) seconds += predict_seconds(member, s, trunk[s].conv.filters);
  return seconds;
}

}  // namespace convoy
