#include "plan/plan.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace convoy {
namespace {

using Json = nlohmann::json;

/// Counts that add up to `total` and follow `weights`: largest remainder, ties to the earlier.
std::vector<int> apportion(int total, const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int> counts(weights.size());
  std::vector<double> remainders(weights.size());
  int given = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = total * weights[i] / sum;
    counts[i] = static_cast<int>(exact);
    remainders[i] = exact - counts[i];
    given += counts[i];
  }
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; given < total; ++i, ++given) ++counts[order[i % order.size()]];
  return counts;
}

Assignment assignment_from_json(const Json& json) {
  return {json.at("member").get<int>(), {json.at("first").get<int>(), json.at("filters").get<int>()}};
}

}  // namespace

StagePlan stage_plan(const std::vector<int>& filters_by_member) {
  StagePlan plan;
  int first = 0;
  for (std::size_t member = 0; member < filters_by_member.size(); ++member) {
    const int count = filters_by_member[member];
    if (count > 0) plan.shards.push_back({static_cast<int>(member), {first, count}});
    first += count;
  }
  return plan;
}

void validate(const Plan& plan, const std::vector<Stage>& trunk) {
  if (plan.batch < 1) fail("plan: batch {} must be at least 1", plan.batch);
  if (plan.stages.size() != trunk.size()) {
    fail("plan: it has {} stages, the net has {}; make the plan for this net", plan.stages.size(), trunk.size());
  }
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    int next = 0;
    for (const Assignment& shard : plan.stages[s].shards) {
      if (shard.member < 0 || shard.member >= static_cast<int>(plan.members.size())) {
        fail("plan: stage {} names member {}, but there are {}", trunk[s].name, shard.member, plan.members.size());
      }
      if (shard.filters.count < 1 || shard.filters.first != next) {
        fail("plan: stage {}: filters {} to {} leave a gap or overlap; filter {} comes next", trunk[s].name,
             shard.filters.first, shard.filters.first + shard.filters.count - 1, next);
      }
      if (shard.filters.count > trunk[s].conv.filters - next) {
        fail("plan: stage {} has {} filters, the plan gives out more", trunk[s].name, trunk[s].conv.filters);
      }
      next += shard.filters.count;
    }
    if (next != trunk[s].conv.filters) {
      fail("plan: stage {} has {} filters, the plan gives out {}", trunk[s].name, trunk[s].conv.filters, next);
    }
  }
}

Plan whole_plan(const std::vector<Stage>& trunk, int batch, const std::string& member) {
  return proportional_plan(trunk, batch, {member}, {1.0});
}

Plan proportional_plan(const std::vector<Stage>& trunk, int batch, const std::vector<std::string>& members,
                       const std::vector<double>& speeds) {
  invariant(members.size() == speeds.size(), "one speed for each member");
  Plan plan{batch, members, {}};
  for (const Stage& stage : trunk) plan.stages.push_back(stage_plan(apportion(stage.conv.filters, speeds)));
  return plan;
}

std::string to_json(const Plan& plan) {
  Json stages = Json::array();
  for (const StagePlan& stage : plan.stages) {
    Json shards = Json::array();
    for (const Assignment& shard : stage.shards) {
      shards.push_back({{"member", shard.member}, {"first", shard.filters.first}, {"filters", shard.filters.count}});
    }
    stages.push_back({{"shards", shards}});
  }
  return Json{{"batch", plan.batch}, {"members", plan.members}, {"stages", stages}}.dump(1) + "\n";
}

Plan plan_from_json(const std::string& text, const std::string& file) {
  try {
    const Json json = Json::parse(text);
    Plan plan{json.at("batch").get<int>(), json.at("members").get<std::vector<std::string>>(), {}};
    for (const Json& stage : json.at("stages")) {
      StagePlan& shards = plan.stages.emplace_back();
      for (const Json& shard : stage.at("shards")) shards.shards.push_back(assignment_from_json(shard));
    }
    return plan;
  } catch (const Json::exception& error) {
    fail("{}: not a plan: {}; expected what a run writes to its plan.json", file, error.what());
  }
}

}  // namespace convoy
