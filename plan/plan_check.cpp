// The rules that a plan must keep.

#include <algorithm>
#include <set>

#include "core/shard_state.hpp"
#include "plan/plan.hpp"

namespace convoy {
namespace {

void expect_members(const Plan& plan, const Stage& stage, const std::vector<Assignment>& assignments) {
  for (const Assignment& each : assignments) {
    if (each.member < 0 || each.member >= static_cast<int>(plan.members.size())) {
      fail("plan: stage {} names member {}, but there are only {}, numbered from 0", stage.name, each.member,
           plan.members.size());
    }
  }
}

/// Throws Error unless the assignments have all filters of the stage, each once and in order.
void expect_all_filters(const Stage& stage, const std::vector<Assignment>& assignments) {
  int next = 0;
  for (const Assignment& each : assignments) {
    if (each.filters.count < 1 || each.filters.first != next) {
      fail("plan: stage {}: filters {} to {} leave a gap or overlap; the range must begin at filter {}", stage.name,
           each.filters.first, each.filters.first + each.filters.count - 1, next);
    }
    if (each.filters.count > stage.conv.filters - next) {
      fail("plan: stage {} has {} filters, but the plan assigns more", stage.name, stage.conv.filters);
    }
    next += each.filters.count;
  }
  if (next != stage.conv.filters) {
    fail("plan: stage {} has {} filters, but the plan assigns {}", stage.name, stage.conv.filters, next);
  }
}

void expect_each_once(const Stage& stage, const StagePlan& planned) {
  std::set<int> holders;
  for (const Tile& tile : tiles_of(planned)) {
    if (!holders.insert(tile.member).second) {
      fail("plan: stage {} names member {} twice; assign it one range of filters in one row", stage.name, tile.member);
    }
  }
}

/// Throws Error unless the rows have all samples of a micro-batch, each once and in order.
void expect_all_samples(const Plan& plan, const Stage& stage, const std::vector<Row>& rows) {
  const int all = micro_batch_size(plan);
  int next = 0;
  for (const Row& row : rows) {
    if (row.samples.count < 1 || row.samples.first != next || row.samples.count > all - next) {
      fail(
          "plan: stage {}: a row has {} samples from sample {} on, but {} of the {} samples of a micro-batch are left; "
          "rows must follow one another without gaps",
          stage.name, row.samples.count, row.samples.first, all - next, all);
    }
    next += row.samples.count;
  }
  if (next != all) {
    fail("plan: stage {}: the rows have {} of the {} samples of a micro-batch", stage.name, next, all);
  }
}

void expect_rows_possible(const Plan& plan, const Stage& stage, const StagePlan& planned) {
  if (!has_several_rows(planned)) return;
  if (!traits_of(plan.exchange).rows) {
    fail("plan: stage {} is cut along samples, which the exchange {} does not support; choose star or ring", stage.name,
         to_string(plan.exchange));
  }
  if (planned.replicated) {
    fail("plan: stage {} is cut along samples, so it cannot also be replicated; choose one of the two", stage.name);
  }
}

void expect_owners(const Plan& plan, const Stage& stage, const StagePlan& planned) {
  if (planned.owners.empty()) {
    if (!has_several_rows(planned) || !has_parameters(stage)) return;
    fail("plan: stage {} is cut along samples, but has no owners; name a member that updates each filter", stage.name);
  }
  expect_members(plan, stage, planned.owners);
  expect_all_filters(stage, planned.owners);
  std::set<int> seen;
  for (const Assignment& owner : planned.owners) {
    if (common(owner.filters, tile_of(planned, owner.member).filters) != owner.filters) {
      fail("plan: stage {}: member {} owns filters {} to {}, but does not compute them all; choose an owner that does",
           stage.name, owner.member, owner.filters.first, owner.filters.first + owner.filters.count - 1);
    }
    if (!seen.insert(owner.member).second) {
      fail("plan: stage {} names owner {} twice; let it own one range of filters", stage.name, owner.member);
    }
  }
}

void expect_stage(const Plan& plan, const Stage& stage, const StagePlan& planned, bool output) {
  const ExchangeTraits& traits = traits_of(plan.exchange);
  if (planned.replicated) {
    const bool weights = has_parameters(stage);
    if (output || !traits.fused_stages || (weights && !traits.replicated_weights)) {
      fail("plan: stage {} cannot be replicated, because its maps go to the master", stage.name);
    }
    if (!weights && (!everywhere(planned) || !planned.owners.empty())) {
      fail("plan: stage {} is replicated and has no weights, so no member can hold shards of it", stage.name);
    }
    if (!weights) return;
  }
  if (everywhere(planned)) expect_all_filters(stage, {});
  expect_each_once(stage, planned);
  for (const Row& row : planned.rows) {
    expect_members(plan, stage, row.shards);
    expect_all_filters(stage, row.shards);
  }
  expect_all_samples(plan, stage, planned.rows);
  expect_rows_possible(plan, stage, planned);
  expect_owners(plan, stage, planned);
}

}  // namespace

void validate(const Plan& plan, const std::vector<Stage>& trunk) {
  if (plan.batch < 1) fail("plan: batch {} must be at least 1", plan.batch);
  if (plan.micro_batches < 1 || plan.batch % plan.micro_batches != 0) {
    fail("plan: batch {} is not divisible into {} equal micro-batches", plan.batch, plan.micro_batches);
  }
  const ExchangeTraits& traits = traits_of(plan.exchange);
  if (plan.relayed && !traits.relayed_images) {
    fail("plan: slaves can relay images only in the ring; use the exchange ring");
  }
  if (!traits.micro_batches && plan.micro_batches > 1) {
    fail("plan: the exchange {} sends whole batches, not {} micro-batches", to_string(plan.exchange),
         plan.micro_batches);
  }
  if (plan.early_sums < 0 || plan.early_sums > static_cast<int>(trunk.size())) {
    fail("plan: \"early_sums\" is {}; expected a number of stages from 0 to {}", plan.early_sums, trunk.size());
  }
  int after = 0;
  for (const int member : plan.unequal) {
    if (member < after || member >= static_cast<int>(plan.members.size())) {
      fail("plan: \"unequal\" names member {}; expected members in ascending order, each once, numbered from 0 to {}",
           member, static_cast<int>(plan.members.size()) - 1);
    }
    after = member + 1;
  }
  expect_fits(plan.exchange, trunk);
  if (plan.stages.size() != trunk.size()) {
    fail("plan: the plan has {} stages, but the net has {}; make a plan for this net", plan.stages.size(),
         trunk.size());
  }
  const std::vector<int> outputs = outputs_of(trunk);
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    const bool output = std::ranges::find(outputs, static_cast<int>(s)) != outputs.end();
    expect_stage(plan, trunk[s], plan.stages[s], output);
  }
}

}  // namespace convoy
