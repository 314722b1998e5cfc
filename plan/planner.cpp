#include "plan/planner.hpp"

#include <algorithm>

#include "plan/dense_slices.hpp"
#include "plan/node_memory.hpp"

namespace convoy {
namespace {

using Caps = std::vector<std::vector<int>>;  // [member][stage]: the most filters that the member may hold

/// Stages with equal shares: each adds or passes on the maps of another stage of the group, filter by filter.
using Group = std::vector<std::size_t>;

double predict_seconds(const MemberProfile& member, const Group& group, int filters) {
  double seconds = 0.0;
  for (const std::size_t stage : group) seconds += convoy::predict_seconds(member, stage, filters);
  return seconds;
}

/// Returns whether each filter reads only the channel of the same number, or those of its group in a group norm.
bool channel_by_channel(const Stage& stage) {
  return stage.kind == StageKind::channels || stage.kind == StageKind::group_norm || stage.kind == StageKind::resize ||
         (stage.conv.groups == stage.channels && stage.conv.filters == stage.channels);
}

/// Returns the groups of all stages that are split but for the slices of dense layers, in the order of the stages.
std::vector<Group> groups_of(const std::vector<Stage>& trunk) {
  std::vector<std::size_t> first(trunk.size());  // the first stage of each stage's group
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    first[s] = s;
    const std::vector<Sources> reads = reads_of(trunk, s);
    for (std::size_t r = channel_by_channel(trunk[s]) ? 0 : 1; r < reads.size(); ++r) {
      const Source& source = reads[r][0];
      if (reads[r].size() > 1 || source.stage < 0) continue;
      const int filters = trunk[source.stage].conv.filters;
      if (filters != trunk[s].conv.filters || source.channels.count != filters) continue;
      if (is_dense_slice(trunk, static_cast<std::size_t>(source.stage))) continue;
      const std::size_t one = std::min(first[s], first[source.stage]);
      const std::size_t other = std::max(first[s], first[source.stage]);
      std::ranges::replace(first, other, one);
    }
  }
  std::vector<Group> groups(trunk.size());
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    if (!better_replicated(trunk, s) && !is_dense_slice(trunk, s)) groups[first[s]].push_back(s);
  }
  std::erase_if(groups, [](const Group& group) { return group.empty(); });
  return groups;
}

/// Returns the most filters, up to `cap`, that a member computes within `seconds`.
int filters_within(const MemberProfile& member, const Group& group, int cap, double seconds) {
  // Where timings are equal except for rounding, fewer filters may seem to take longer, and the search would miss the
  // cap.
  if (predict_seconds(member, group, cap) <= seconds) return cap;
  int low = 0;
  int high = cap;
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (predict_seconds(member, group, middle) <= seconds) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

int cap_of(const Caps& caps, std::size_t member, const Group& group) {
  int cap = caps[member][group[0]];
  for (const std::size_t stage : group) cap = std::min(cap, caps[member][stage]);
  return cap;
}

std::vector<int> filters_within(const std::vector<MemberProfile>& members, const Group& group, const Caps& caps,
                                double seconds) {
  std::vector<int> counts;
  for (std::size_t m = 0; m < members.size(); ++m) {
    counts.push_back(filters_within(members[m], group, cap_of(caps, m, group), seconds));
  }
  return counts;
}

int sum(const std::vector<int>& counts) {
  int total = 0;
  for (const int count : counts) total += count;
  return total;
}

/// Takes filters, one at a time, from the member that would be slowest, until `total` remain.
void take_back(std::vector<int>& counts, int total, const std::vector<MemberProfile>& members, const Group& group) {
  for (int surplus = sum(counts) - total; surplus > 0; --surplus) {
    std::size_t slowest = 0;
    double most = -1.0;
    for (std::size_t m = 0; m < counts.size(); ++m) {
      const double seconds = predict_seconds(members[m], group, counts[m]);
      if (counts[m] > 0 && seconds >= most) {
        most = seconds;
        slowest = m;
      }
    }
    --counts[slowest];
  }
}

/// Returns the filter counts by member for each stage of a group, or an empty vector where the caps do not allow
/// `total` filters.
std::vector<int> share(int total, const Group& group, const std::vector<MemberProfile>& members, const Caps& caps) {
  double high = 0.0;
  for (std::size_t m = 0; m < members.size(); ++m) {
    high = std::max(high, predict_seconds(members[m], group, cap_of(caps, m, group)));
  }
  std::vector<int> counts = filters_within(members, group, caps, high);
  if (sum(counts) < total) return {};
  double low = 0.0;
  for (int round = 0; round < 60; ++round) {
    const double middle = (low + high) / 2;
    std::vector<int> tried = filters_within(members, group, caps, middle);
    if (sum(tried) >= total) {
      high = middle;
      counts = std::move(tried);
    } else {
      low = middle;
    }
  }
  take_back(counts, total, members, group);
  return counts;
}

/// Gives each slice of a dense layer to the member that holds the channels before it. Where their sums are few, the
/// member with the last slice adds them up. Returns false where the caps do not allow it.
bool share_slices(const std::vector<Stage>& trunk, int batch, const Caps& caps, std::vector<std::vector<int>>& counts) {
  std::size_t last = trunk.size();
  for (std::size_t s = first_dense_slice(trunk); s < trunk.size(); ++s) {
    if (is_dense_slice(trunk, s)) {
      std::vector<bool> may_hold;
      for (const std::vector<int>& cap : caps) may_hold.push_back(cap[s] == trunk[s].conv.filters);
      const auto source = static_cast<std::size_t>(reads_of(trunk, s)[0][0].stage);
      counts[s] = shares_of_slice(trunk, s, counts[source], may_hold);
      if (counts[s].empty()) return false;
      last = s;
    } else if (last < s && adds_few_slices(trunk, s, batch)) {
      counts[s] = counts[last];
    }
  }
  return true;
}

std::size_t plan_bytes(const std::vector<Stage>& trunk, const std::vector<std::vector<int>>& counts, int batch,
                       std::size_t member, int filter_block) {
  std::size_t bytes = 0;
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    // Every member may have to compute a stage without shards.
    bytes += shard_bytes(trunk[s], counts[s].empty() ? trunk[s].conv.filters : counts[s][member], batch, s > 0,
                         filter_block);
  }
  return bytes;
}

/// Lowers the caps of members whose shards exceed their memory. Returns whether any cap was lowered.
bool lower_caps(const std::vector<Stage>& trunk, int batch, const std::vector<MemberProfile>& members,
                const std::vector<std::vector<int>>& counts, Caps& caps) {
  bool lowered = false;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const std::size_t bytes = plan_bytes(trunk, counts, batch, m, members[m].filter_block);
    if (members[m].memory == 0 || bytes <= members[m].memory) continue;
    lowered = true;
    const double factor = 0.98 * static_cast<double>(members[m].memory) / static_cast<double>(bytes);
    for (std::size_t s = 0; s < trunk.size(); ++s) {
      if (!counts[s].empty()) caps[m][s] = std::min(caps[m][s], static_cast<int>(factor * counts[s][m]));
    }
  }
  return lowered;
}

/// Timings are noisy, so a larger shard that was timed as faster counts as slow as the smaller one.
std::vector<MemberProfile> monotone(std::vector<MemberProfile> members) {
  for (MemberProfile& member : members) {
    for (std::vector<Timing>& timings : member.stages) {
      for (std::size_t i = 1; i < timings.size(); ++i) {
        const double factor = std::max(1.0, timings[i - 1].seconds() / timings[i].seconds());
        timings[i] = timings[i].times(factor);
      }
    }
  }
  return members;
}

}  // namespace

Plan make_plan(const std::vector<Stage>& trunk, int batch, const std::vector<MemberProfile>& measured) {
  invariant(!measured.empty(), "a plan has members");
  const std::vector<MemberProfile> members = monotone(measured);
  Caps caps(members.size());
  for (std::size_t m = 0; m < members.size(); ++m) {
    for (std::size_t s = 0; s < trunk.size(); ++s) {
      caps[m].push_back(members[m].stages[s].empty() ? 0 : trunk[s].conv.filters);
    }
  }
  const std::vector<Group> groups = groups_of(trunk);
  std::vector<std::vector<int>> counts;  // by stage; empty for replicated stages
  do {
    counts.assign(trunk.size(), {});
    for (const Group& group : groups) {
      const std::vector<int> shares = share(trunk[group[0]].conv.filters, group, members, caps);
      if (shares.empty()) refuse_size(trunk, batch, members);
      for (const std::size_t stage : group) counts[stage] = shares;
    }
    if (!share_slices(trunk, batch, caps, counts)) refuse_size(trunk, batch, members);
  } while (lower_caps(trunk, batch, members, counts, caps));

  Plan plan{batch, {}, {}};
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (!members[m].same_bits) plan.unequal.push_back(static_cast<int>(m));
  }
  for (const MemberProfile& member : members) plan.members.push_back(member.name);
  for (const auto& row : counts) {
    plan.stages.push_back(row.empty() ? StagePlan{.rows = {}, .owners = {}, .replicated = true}
                                      : stage_plan(row, batch));
  }
  return plan;
}

namespace {

/// Returns the plan of make_plan(), or nothing where it does not fit.
std::optional<Plan> plan_within(const std::vector<Stage>& trunk, int batch, const std::vector<MemberProfile>& members) {
  try {
    return make_plan(trunk, batch, members);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Takes what members need on the host from the memory of those that have too little for all. Returns whether there
/// were any.
bool leave_room(const Plan& plan, const std::vector<Stage>& trunk, std::vector<MemberProfile>& members) {
  std::optional<TaskGraph> graph;
  bool changed = false;
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (members[m].memory == 0) continue;
    if (!graph) graph = make_task_graph(plan, trunk);
    const auto member = static_cast<int>(m);
    const std::size_t taken = memory_taken(plan, trunk, *graph, member, members[m]);
    if (taken <= members[m].memory) continue;
    const std::size_t host = taken - shards_bytes(plan, trunk, *graph, member, members[m].filter_block);
    members[m].memory -= std::min(host, members[m].memory - 1);
    changed = true;
  }
  return changed;
}

}  // namespace

std::optional<Plan> shares_of_filters(const std::vector<Stage>& trunk, int batch, std::vector<MemberProfile> members,
                                      Exchange exchange, NumberType wire) {
  if (const std::optional<Plan> plan = plan_within(trunk, batch, members)) {
    // What members take on the host depends on their shares, so it is known only now.
    Plan exchanged = *plan;
    exchanged.exchange = exchange;
    exchanged.wire = wire;
    if (!leave_room(exchanged, trunk, members)) return plan;
    const std::optional<Plan> smaller = plan_within(trunk, batch, members);
    return smaller ? smaller : plan;
  }
  for (MemberProfile& each : members) each.memory = 0;
  return plan_within(trunk, batch, members);
}

bool fits_in_memory(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training,
                    const std::vector<MemberProfile>& members) {
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (members[m].memory == 0) continue;
    const auto member = static_cast<int>(m);
    if (memory_taken(plan, trunk, training, member, members[m]) > members[m].memory) return false;
  }
  return true;
}

void refuse_size(const std::vector<Stage>& trunk, int batch, const std::vector<MemberProfile>& members) {
  constexpr double kMiB = 1024.0 * 1024.0;
  double need = 0.0;
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    need += static_cast<double>(shard_bytes(trunk[s], trunk[s].conv.filters, batch, s > 0)) / kMiB;
  }
  std::string have;
  for (const MemberProfile& member : members) {
    const double room = static_cast<double>(member.memory) / kMiB;
    have += fmt::format("{}{} {:.0f} MiB", have.empty() ? "" : ", ", member.name, room);
    if (room > 0.0 && member.memory_factor > 0.0) have += fmt::format(" (of {:.0f})", member.memory_factor * room);
  }
  fail(
      "the net does not fit: its stages take {:.0f} MiB at batch {} on one machine (each further machine adds its own "
      "copy of the stage inputs, and needs room for values on their way), and the members have room for: {}; add "
      "slaves, raise --memory, or use a smaller --batch",
      need, batch, have);
}

}  // namespace convoy
