#include "plan/choose.hpp"
#include "plan/planner.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "core/shard_state.hpp"

namespace convoy {
namespace {

constexpr double kUnmeasured = 1e12;                                  // bytes per second; transfers then cost nothing
constexpr double kUntried = std::numeric_limits<double>::infinity();  // cost before a plan was tried
constexpr int kMostMicroBatches = 16;
constexpr int kMostMicroBatchesOfRows = 4;
constexpr std::size_t kMostReplicated = 2;
constexpr double kWorthwhile = 0.99;  ///< a less simple plan must cost at most this part of the best so far
constexpr double kWorthLeavingOut = 0.95;

/// A received byte is copied to its place; a sent byte is written once for all receivers.
ByteCost byte_cost(const HostSpeed& host) { return {host.busy_per_byte, host.busy_per_byte + 2.0 / host.memory}; }

/// The properties of a plan other than its shares.
struct Form {
  Exchange exchange = Exchange::star;
  int micro_batches = 1;
  std::size_t replicated = 0;  ///< number of first stages that are replicated
  bool relayed = false;
  std::size_t by_samples = 0;  ///< number of first stages that are cut along samples
};

/// Forms that differ in the number of micro-batches alone, the fewest first.
using Family = std::vector<Form>;

Family family_of(Form form, const std::vector<int>& micro_batches) {
  Family family;
  for (const int count : micro_batches) {
    if (form.by_samples > 0 && count > kMostMicroBatchesOfRows && !family.empty()) continue;
    form.micro_batches = count;
    family.push_back(form);
  }
  return family;
}

/// Returns the families in which first stages are cut along samples: a quarter, a half, three quarters and all of the stages.
std::vector<Family> families_by_samples(const std::vector<Stage>& trunk, const std::vector<int>& micro_batches,
                                        const Wishes& wishes) {
  const std::size_t most = trunk.size();
  std::vector<Family> all;
  std::size_t before = 0;
  for (std::size_t quarter = 1; quarter <= 4; ++quarter) {
    const std::size_t stages = most * quarter / 4;
    if (stages == std::exchange(before, stages)) continue;
    for (const Exchange exchange : {Exchange::star, Exchange::ring}) {
      if (wishes.exchange && *wishes.exchange != exchange) continue;
      all.push_back(family_of({.exchange = exchange, .by_samples = stages}, micro_batches));
    }
  }
  return all;
}

/// Returns all families, simple ones first.
std::vector<Family> families(const std::vector<Stage>& trunk, int batch, const Wishes& wishes) {
  const std::size_t stages = trunk.size();
  std::vector<int> micro_batches;
  for (int count = 1; count <= kMostMicroBatches; count *= 2) {
    if (batch % count == 0) micro_batches.push_back(count);
  }
  if (wishes.micro_batches > 0) micro_batches = {wishes.micro_batches};
  if (wishes.exchange && !traits_of(*wishes.exchange).fused_stages) return {{{.exchange = *wishes.exchange}}};
  if (wishes.layout == Layout::samples) return families_by_samples(trunk, micro_batches, wishes);
  std::vector<Family> all;
  for (const Exchange exchange : {Exchange::star, Exchange::ring}) {
    if (wishes.exchange && *wishes.exchange != exchange) continue;
    const std::size_t most = exchange == Exchange::ring ? std::min(stages - 1, kMostReplicated) : 0;
    for (std::size_t replicated = 0; replicated <= most; ++replicated) {
      for (const bool relayed : {false, true}) {
        if (relayed && exchange != Exchange::ring) continue;
        all.push_back(family_of({.exchange = exchange, .replicated = replicated, .relayed = relayed}, micro_batches));
      }
    }
  }
  if (wishes.layout == Layout::filters) return all;
  const std::vector<Family> by_samples = families_by_samples(trunk, micro_batches, wishes);
  all.insert(all.end(), by_samples.begin(), by_samples.end());
  return all;
}

class Chooser {
 public:
  Chooser(const std::vector<Stage>& trunk, int batch, const std::vector<MemberProfile>& members, const Wishes& wishes,
          const MasterProfile& master)
      : trunk_(trunk), batch_(batch), members_(members), wishes_(wishes), master_(master), everyone_(members.size()) {
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
    for (const Team& team : smaller_teams()) {
      std::optional<Tried> next = try_families(team);
      if (next && next->cost < kWorthLeavingOut * best->cost) best = std::move(next);
    }
    choice_.plan = std::move(best->plan);
    choice_.predicted = std::move(best->predicted);
    choice_.energy = std::move(best->energy);
    std::ranges::stable_sort(choice_.alternatives, {}, [this](const Alternative& each) {
      return cost_of(wishes_.objective, each.seconds, each.joules);
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
    for (const Stage& stage : trunk_)
      bytes += static_cast<double>(bytes_of(wishes_.wire, input_shape(stage, batch_).size()));
    const double rate = std::min(member.link.in, member.link.out);
    return seconds_alone(trunk_, member, batch_, {}) / static_cast<double>(members_.size()) +
           (rate > 0.0 ? bytes / rate : 0.0);
  }

  /// Returns the plan for a team, which all forms begin with.
  const Plan& shares(const Team& team) {
    const auto known = shares_.find(team);
    if (known != shares_.end()) return known->second;
    std::vector<MemberProfile> chosen = members_;
    for (const std::size_t m : everyone_) {
      if (!std::ranges::binary_search(team, m)) chosen[m].stages.assign(trunk_.size(), {});
    }
    return shares_.emplace(team, make_plan(trunk_, batch_, chosen)).first->second;
  }

  /// Cuts the first stages along samples, in proportion to the speeds of the team's members. Returns false where one
  /// member would get all samples, or shards do not fit in the members' memory.
  bool cut_by_samples(Plan& plan, std::size_t stages, const Team& team) const {
    std::vector<double> speeds(members_.size(), 0.0);
    for (const std::size_t m : team) {
      double seconds = 0.0;
      for (std::size_t s = 0; s < stages; ++s) seconds += predict_seconds(members_[m], s, trunk_[s].conv.filters);
      speeds[m] = 1.0 / seconds;
    }
    const double fastest = *std::ranges::max_element(speeds);
    if (!(fastest > 0.0 && fastest < kUnmeasured)) return false;  // no member was timed for all of the stages
    if (!convoy::cut_by_samples(plan, trunk_, stages, speeds)) return false;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      if (members_[m].memory > 0 && tile_bytes(plan, static_cast<int>(m)) > members_[m].memory) return false;
    }
    return true;
  }

  /// Returns the bytes of a member's tiles. Every member may have to compute a stage without tiles.
  std::size_t tile_bytes(const Plan& plan, int member) const {
    std::size_t bytes = 0;
    for (std::size_t s = 0; s < trunk_.size(); ++s) {
      const Tile tile = everywhere(plan.stages[s])
                            ? Tile{member, {0, trunk_[s].conv.filters}, {0, micro_batch_size(plan)}}
                            : tile_of(plan.stages[s], member);
      bytes += shard_bytes(trunk_[s], tile.filters.count, tile.samples.count * plan.micro_batches, s > 0);
    }
    return bytes;
  }

  /// A plan with its task graph and the machines of its simulation.
  struct Candidate {
    Form form;
    Team team;
    Plan plan;
    TaskGraph graph;
    ClusterModel cluster;
  };
  struct Tried {
    Plan plan;
    Simulated predicted;
    StepEnergy energy;
    double cost;  ///< the value of the objective, by cost_of
  };

  /// Returns nothing where the net does not fit on so few members, or they cannot share samples.
  std::unique_ptr<Candidate> candidate(const Form& form, const Team& team) {
    auto made = std::make_unique<Candidate>();
    made->form = form;
    made->team = team;
    Plan& plan = made->plan;
    try {
      plan = shares(team);
    } catch (const Error&) {
      if (team == everyone_) throw;
      return nullptr;
    }
    plan.wire = wishes_.wire;
    plan.exchange = form.exchange;
    set_micro_batches(plan, form.micro_batches);
    plan.relayed = form.relayed;
    for (std::size_t s = 0; s < form.replicated; ++s) plan.stages[s].replicated = true;
    if (form.by_samples > 0 && !cut_by_samples(plan, form.by_samples, team)) return nullptr;
    made->graph = make_task_graph(plan, trunk_);
    made->cluster = measured_cluster(plan, trunk_, members_, master_);
    return made;
  }

  std::optional<Tried> try_out(std::unique_ptr<Candidate> made) {
    if (made == nullptr) return std::nullopt;
    Simulated predicted = simulate(made->graph, made->plan, trunk_, made->cluster);
    StepEnergy energy = energy_of(predicted, members_, master_, wishes_.terms);
    choice_.alternatives.push_back({.text = fmt::format("{} of {} member{}, {}", made->team.size(), members_.size(),
                                                        members_.size() == 1 ? "" : "s", describe(made->plan)),
                                    .seconds = predicted.seconds,
                                    .layout = made->form.by_samples > 0 ? Layout::samples : Layout::filters,
                                    .joules = energy.joules()});
    const double cost = cost_of(wishes_.objective, predicted.seconds, energy.joules());
    least_ = std::min(least_, cost);
    return Tried{std::move(made->plan), std::move(predicted), std::move(energy), cost};
  }

  /// Tries the families whose busiest processor or card allows the best step first, and leaves out those that cannot be
  /// better than the best plan so far. The first is always tried, and with all members one of filters and one of samples.
  /// Returns the simplest plan of which no other is much better.
  std::optional<Tried> try_families(const Team& team) {
    struct Bound {
      std::size_t family;
      double least;
      std::unique_ptr<Candidate> first;
    };
    const std::vector<Family> all = families(trunk_, batch_, wishes_);
    std::vector<Bound> bounds;
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto first = candidate(all[i].front(), team);
      if (first == nullptr) continue;
      const Simulated step = least_step(first->graph, first->plan, trunk_, first->cluster);
      const double least =
          cost_of(wishes_.objective, step.seconds, energy_of(step, members_, master_, wishes_.terms).joules());
      bounds.push_back({i, least, std::move(first)});
    }
    std::ranges::stable_sort(bounds, {}, &Bound::least);
    std::set<bool> kinds;  // whether a family that was tried is cut along samples
    std::vector<std::vector<Tried>> tried(all.size());
    for (Bound& bound : bounds) {
      const bool first = &bound == &bounds.front();
      const bool first_of_kind = team == everyone_ && kinds.insert(bound.first->form.by_samples > 0).second;
      if (!first && !first_of_kind && bound.least > least_ / kWorthwhile) continue;
      tried[bound.family] = try_family(all[bound.family], std::move(bound.first));
    }
    // Simple plans come first, and a plan that is barely better does not replace them.
    std::optional<Tried> best;
    for (std::vector<Tried>& family : tried) {
      for (Tried& each : family) {
        if (!best || each.cost <= kWorthwhile * best->cost) best = std::move(each);
      }
    }
    return best;
  }

  /// Tries more and more micro-batches until twice in a row they gain nothing.
  std::vector<Tried> try_family(const Family& family, std::unique_ptr<Candidate> first) {
    std::vector<Tried> tried;
    double best = kUntried;
    int vain = 0;
    const Team team = first->team;
    for (const Form& form : family) {
      std::optional<Tried> next = try_out(first != nullptr ? std::move(first) : candidate(form, team));
      if (!next) continue;
      vain = next->cost < best ? 0 : vain + 1;
      best = std::min(best, next->cost);
      tried.push_back(std::move(*next));
      if (vain == 2) break;
    }
    return tried;
  }

  const std::vector<Stage>& trunk_;
  int batch_;
  const std::vector<MemberProfile>& members_;
  Wishes wishes_;
  const MasterProfile& master_;
  Team everyone_;
  std::map<Team, Plan> shares_;  ///< shares()
  Choice choice_;
  double least_ = kUntried;  ///< cost of the best plan that was simulated
};

}  // namespace

ClusterModel measured_cluster(const Plan& plan, const std::vector<Stage>& trunk,
                              const std::vector<MemberProfile>& members, const MasterProfile& master) {
  const auto rate = [](double measured) { return measured > 0.0 ? measured : kUnmeasured; };
  const bool own = !plan.members.empty() && plan.members.back() == kMasterName;
  const std::size_t slaves = members.size() - (own ? 1 : 0);
  ClusterModel model;
  NodeLink card;  // where it was not measured, the master's card is as fast as the fastest slave's
  for (std::size_t m = 0; m < slaves; ++m) {
    model.links.push_back({rate(members[m].link.out), rate(members[m].link.in)});
    model.byte_costs.push_back(byte_cost(members[m].host));
    model.latency = std::max(model.latency, members[m].latency);
    card = {std::max(card.out, model.links[m].in), std::max(card.in, model.links[m].out)};
  }
  if (slaves == 0) card = {kUnmeasured, kUnmeasured};
  if (master.card.out > 0.0 && master.card.in > 0.0) card = master.card;
  model.links.push_back(card);
  model.byte_costs.push_back(byte_cost(own ? members.back().host : master.host));
  model.compute = [&plan, &trunk, &members, &master](const Task& task) {
    if (task.kind == TaskKind::head) return master.head.pass(plan.batch / plan.micro_batches);
    if (task.kind == TaskKind::head_update) return master.head.update;
    const auto node = static_cast<std::size_t>(task.node);
    const bool adds = task.kind == TaskKind::sum || task.kind == TaskKind::filter_sum;
    if (adds || task.kind == TaskKind::layers || task.kind == TaskKind::layers_backward) {
      return memory_seconds(task, trunk, node < members.size() ? members[node].host.memory : master.host.memory);
    }
    // The passes include the layers, and joining takes no time to speak of.
    if (task.kind == TaskKind::send || concerns_statistics(task)) return 0.0;
    const MemberProfile& member = members[node];
    if (task.kind == TaskKind::update) {
      // A device updates the whole shard, even where others own some of its filters.
      const auto stage = static_cast<std::size_t>(task.stage);
      return predict_passes(member, stage, tile_of(plan.stages[stage], task.node).filters.count).update;
    }
    const Timing passes = predict_passes(member, static_cast<std::size_t>(task.stage), task.filters.count)
                              .for_samples(static_cast<double>(task.samples.count) / micro_batch_size(plan))
                              .in_parts(plan.micro_batches);
    switch (task.kind) {
      case TaskKind::forward: return passes.forward / plan.micro_batches;
      case TaskKind::backward_input: return passes.backward_input / plan.micro_batches;
      default: return passes.backward_filters;
    }
  };
  return model;
}

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
