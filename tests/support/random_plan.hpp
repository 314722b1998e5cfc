// Plans drawn from a seed, for property tests: any rows, members in any order, owners, replicated stages.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "plan/plan.hpp"
#include "tests/support/tiles.hpp"

namespace convoy {

/// Draws plans of a trunk.
class PlanDrawer {
 public:
  PlanDrawer(const std::vector<Stage>& trunk, int batch, std::uint64_t seed)
      : trunk_(trunk), batch_(batch), random_(seed, 17) {}

  Plan draw() {
    const int members = between(1, 5);
    return draw(members, random_.below(2) == 0);
  }
  /// With `own`, the last of the members is the master.
  Plan draw(int members, bool own) {
    std::vector<double> speeds;
    for (int i = 0; i < members; ++i) speeds.push_back(between(1, 4));
    Plan plan = proportional_plan(trunk_, batch_, member_names(members, own), speeds);
    set_micro_batches(plan, between(1, 3));
    plan.exchange = random_.below(2) == 0 ? Exchange::star : Exchange::ring;
    plan.relayed = plan.exchange == Exchange::ring && random_.below(2) == 0;
    for (std::size_t s = 0; s < trunk_.size(); ++s) plan.stages[s] = stage(plan, s);
    plan.early_sums = between(0, static_cast<int>(trunk_.size()));
    for (int i = 0; i < members; ++i) {
      if (random_.below(6) == 0) plan.unequal.push_back(i);
    }
    validate(plan, trunk_);
    return plan;
  }

 private:
  int between(int least, int most) {
    return least + static_cast<int>(random_.below(static_cast<std::uint32_t>(most - least + 1)));
  }
  /// Divides `total` at random into `parts` consecutive counts, of which each is at least `least`.
  std::vector<int> divided(int total, int parts, int least) {
    std::vector<int> counts(static_cast<std::size_t>(parts), least);
    for (int left = total - parts * least; left > 0; --left) ++counts[random_.below(static_cast<std::uint32_t>(parts))];
    return counts;
  }

  /// Draws rows, the members of each, and their filters. Some members may have none.
  StagePlan stage(const Plan& plan, std::size_t s) {
    const std::vector<int> outputs = outputs_of(trunk_);
    const bool last = std::ranges::find(outputs, static_cast<int>(s)) != outputs.end();
    if (everywhere(plan.stages[s]) && random_.below(2) == 0) return plan.stages[s];
    std::vector<int> members;
    for (int i = 0; i < static_cast<int>(plan.members.size()); ++i) {
      members.insert(members.begin() + between(0, i), i);
    }
    const int rows = between(1, std::min(static_cast<int>(members.size()), micro_batch_size(plan)));
    const std::vector<int> samples = divided(micro_batch_size(plan), rows, 1);
    const std::vector<int> sizes = divided(static_cast<int>(members.size()), rows, 1);
    const int all = trunk_[s].conv.filters;
    const std::vector<int> owned = divided(all, rows, 0);
    StagePlan planned;
    int sample = 0;
    int owner = 0;
    std::size_t next = 0;
    for (std::size_t r = 0; r < samples.size(); ++r) {
      Row row{{sample, samples[r]}, {}};
      int filter = 0;
      for (const int count : divided(all, sizes[r], 0)) {
        const int member = members[next++];
        if (count > 0) row.shards.push_back({member, {filter, count}});
        filter += count;
      }
      for (const Assignment& shard : row.shards) {
        const FilterRange part = common(shard.filters, FilterRange{owner, owned[r]});
        if (part.count > 0) planned.owners.push_back({shard.member, part});
      }
      owner += owned[r];
      sample += samples[r];
      planned.rows.push_back(std::move(row));
    }
    if (rows == 1 || !has_parameters(trunk_[s])) planned.owners.clear();
    planned.replicated = rows == 1 && !last && has_parameters(trunk_[s]) &&
                         traits_of(plan.exchange).replicated_weights && random_.below(4) == 0;
    return planned;
  }

  const std::vector<Stage>& trunk_;
  int batch_;
  Random random_;
};

}  // namespace convoy
