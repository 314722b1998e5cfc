#include "plan/plan.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "core/shard_state.hpp"
#include "plan/json_fields.hpp"

namespace convoy {
namespace {

using Json = nlohmann::json;

/// Returns counts that add up to `total` in proportion to `weights`, by the largest-remainder method; ties go to the
/// earlier count.
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
  return {integer(json, "member"), {integer(json, "first"), integer(json, "filters")}};
}

template <class T>
struct Name {
  T value;
  const char* text;
};
constexpr std::array<Name<Exchange>, 3> kExchanges{
    {{Exchange::star, "star"}, {Exchange::ring, "ring"}, {Exchange::thesis, "thesis"}}};
constexpr std::array<Name<NumberType>, 4> kTypes{
    {{NumberType::fp32, "fp32"}, {NumberType::bf16, "bf16"}, {NumberType::fp16, "fp16"}, {NumberType::int8, "int8"}}};

template <class T, std::size_t N>
const char* name_of(T value, const std::array<Name<T>, N>& names) {
  return std::ranges::find(names, value, &Name<T>::value)->text;
}

template <class T, std::size_t N>
T value_of(const std::string& text, const std::array<Name<T>, N>& names, const char* what) {
  const auto found = std::ranges::find_if(names, [&](const Name<T>& name) { return text == name.text; });
  if (found != names.end()) return found->value;
  std::vector<const char*> known;
  for (const Name<T>& name : names) known.push_back(name.text);
  fail("{} '{}' is unknown; expected {}", what, text, fmt::join(known, " or "));
}

}  // namespace

std::string to_string(Exchange exchange) { return name_of(exchange, kExchanges); }
std::string to_string(NumberType type) { return name_of(type, kTypes); }
Exchange exchange_from(const std::string& text) { return value_of(text, kExchanges, "exchange"); }
NumberType number_type_from(const std::string& text) { return value_of(text, kTypes, "number type"); }

const ExchangeTraits& traits_of(Exchange exchange) {
  static constexpr ExchangeTraits kStar{.replicated_weights = false, .relayed_images = false};
  static constexpr ExchangeTraits kRing{.master_sums = false};
  static constexpr ExchangeTraits kThesis{.micro_batches = false,
                                          .replicated_weights = false,
                                          .relayed_images = false,
                                          .moving_shares = false,
                                          .master_holds_weights = true,
                                          .fused_stages = false};
  switch (exchange) {
    case Exchange::star: return kStar;
    case Exchange::ring: return kRing;
    default: return kThesis;
  }
}

void set_exchange(Plan& plan, Exchange exchange) {
  const ExchangeTraits& traits = traits_of(exchange);
  plan.exchange = exchange;
  if (!traits.replicated_weights) {
    for (StagePlan& stage : plan.stages) stage.replicated = stage.shards.empty();
  }
  if (!traits.relayed_images) plan.relayed = false;
  if (!traits.micro_batches) plan.micro_batches = 1;
}

int filters_in(const StagePlan& stage) {
  return stage.shards.empty() ? 0 : stage.shards.back().filters.first + stage.shards.back().filters.count;
}

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

void expect_fits(Exchange exchange, const std::vector<Stage>& trunk) {
  if (traits_of(exchange).fused_stages) return;
  if (!is_chain(trunk)) {
    fail(
        "plan: the exchange {} supports only a chain of stages, but this net has branches; choose --exchange star or "
        "ring",
        to_string(exchange));
  }
  const auto beyond = [](const Stage& stage) {
    return stage.kind != StageKind::convolution || has_batch_norm(stage) || stage.conv.groups > 1;
  };
  const auto found = std::ranges::find_if(trunk, beyond);
  if (found != trunk.end()) {
    fail(
        "plan: the exchange {} does not support batch norm, response norm or grouped convolution, which stage {} has; "
        "choose --exchange star or ring",
        to_string(exchange), found->name);
  }
}

bool better_replicated(const std::vector<Stage>& trunk, std::size_t stage) {
  const Stage& made = trunk[stage];
  const std::vector<int> outputs = outputs_of(trunk);
  if (has_parameters(made) || std::ranges::find(outputs, static_cast<int>(stage)) != outputs.end()) return false;
  const auto read_whole_by = [&](std::size_t reader, const Source& source) {
    if (reader == stage || trunk[reader].kind != StageKind::convolution) return false;
    if (trunk[reader].conv.groups > 1) return false;
    const Sources from = reads_of(trunk, reader)[0];
    return std::ranges::find(from, source) != from.end();
  };
  std::size_t read = 0;  // values that are not already present
  for (const Sources& sources : reads_of(trunk, stage)) {
    for (const Source& source : sources) {
      bool there = source.stage < 0;
      for (std::size_t reader = 0; reader < trunk.size() && !there; ++reader) there = read_whole_by(reader, source);
      if (!there) read += maps_shape(trunk, source.stage, 1, source.channels.count).size();
    }
  }
  return read <= output_shape(made, 1, made.conv.filters).size();
}

void validate(const Plan& plan, const std::vector<Stage>& trunk) {
  if (plan.batch < 1) fail("plan: batch {} must be at least 1", plan.batch);
  if (plan.micro_batches < 1 || plan.batch % plan.micro_batches != 0) {
    fail("plan: batch {} is not divisible into {} equal micro-batches", plan.batch, plan.micro_batches);
  }
  if (plan.relayed && !traits_of(plan.exchange).relayed_images) {
    fail("plan: slaves can relay images only in the ring; use the exchange ring");
  }
  const ExchangeTraits& traits = traits_of(plan.exchange);
  if (!traits.micro_batches && plan.micro_batches > 1) {
    fail("plan: the exchange {} sends whole batches, not {} micro-batches", to_string(plan.exchange),
         plan.micro_batches);
  }
  expect_fits(plan.exchange, trunk);
  if (plan.stages.size() != trunk.size()) {
    fail("plan: the plan has {} stages, but the net has {}; make a plan for this net", plan.stages.size(),
         trunk.size());
  }
  const std::vector<int> outputs = outputs_of(trunk);
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    const bool output = std::ranges::find(outputs, static_cast<int>(s)) != outputs.end();
    if (plan.stages[s].replicated) {
      const bool weights = has_parameters(trunk[s]);
      if (output || !traits.fused_stages || (weights && !traits.replicated_weights)) {
        fail("plan: stage {} cannot be replicated, because its maps go to the master", trunk[s].name);
      }
      if (!weights && !plan.stages[s].shards.empty()) {
        fail("plan: stage {} is replicated and has no weights, so no member can hold shards of it", trunk[s].name);
      }
      if (!weights) continue;
    }
    int next = 0;
    std::set<int> holders;
    for (const Assignment& shard : plan.stages[s].shards) {
      if (!holders.insert(shard.member).second) {
        fail("plan: stage {} names member {} twice; assign it one range of filters", trunk[s].name, shard.member);
      }
      if (shard.member < 0 || shard.member >= static_cast<int>(plan.members.size())) {
        fail("plan: stage {} names member {}, but there are only {}, numbered from 0", trunk[s].name, shard.member,
             plan.members.size());
      }
      if (shard.filters.count < 1 || shard.filters.first != next) {
        fail("plan: stage {}: filters {} to {} leave a gap or overlap; the range must begin at filter {}",
             trunk[s].name, shard.filters.first, shard.filters.first + shard.filters.count - 1, next);
      }
      if (shard.filters.count > trunk[s].conv.filters - next) {
        fail("plan: stage {} has {} filters, but the plan assigns more", trunk[s].name, trunk[s].conv.filters);
      }
      next += shard.filters.count;
    }
    if (next != trunk[s].conv.filters) {
      fail("plan: stage {} has {} filters, but the plan assigns {}", trunk[s].name, trunk[s].conv.filters, next);
    }
  }
}

Plan whole_plan(const std::vector<Stage>& trunk, int batch, const std::string& member) {
  return proportional_plan(trunk, batch, {member}, {1.0});
}

Plan proportional_plan(const std::vector<Stage>& trunk, int batch, const std::vector<std::string>& members,
                       const std::vector<double>& speeds) {
  invariant(members.size() == speeds.size(), "each member has a speed");
  Plan plan{batch, members, {}};
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    plan.stages.push_back(better_replicated(trunk, s) ? StagePlan{.shards = {}, .replicated = true}
                                                      : stage_plan(apportion(trunk[s].conv.filters, speeds)));
  }
  return plan;
}

std::vector<double> work_shares(const std::vector<Stage>& stages, const Plan& plan) {
  std::vector<double> flops(plan.members.size(), 0.0);
  double sum = 0.0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const Assignment& shard : plan.stages[s].shards) {
      const double work = conv_flops(stages[s], 1, shard.filters.count);
      flops[static_cast<std::size_t>(shard.member)] += work;
      sum += work;
    }
  }
  if (sum > 0.0) {
    for (double& share : flops) share /= sum;
  }
  return flops;
}

std::string describe(const Plan& plan) {
  std::string text = fmt::format("{}, {}", to_string(plan.exchange), to_string(plan.wire));
  if (plan.micro_batches > 1) text += fmt::format(", micro-batches of {}", plan.batch / plan.micro_batches);
  if (plan.relayed) text += ", images relayed";
  const auto replicated = std::ranges::count_if(
      plan.stages, [](const StagePlan& stage) { return stage.replicated && !stage.shards.empty(); });
  if (replicated > 0) text += fmt::format(", first {} replicated", replicated == 1 ? "stage" : "stages");
  return text;
}

std::string to_json(const Plan& plan) {
  Json stages = Json::array();
  for (const StagePlan& stage : plan.stages) {
    Json shards = Json::array();
    for (const Assignment& shard : stage.shards) {
      shards.push_back({{"member", shard.member}, {"first", shard.filters.first}, {"filters", shard.filters.count}});
    }
    stages.push_back({{"shards", shards}, {"replicated", stage.replicated}});
  }
  return Json{{"batch", plan.batch},
              {"members", plan.members},
              {"stages", stages},
              {"exchange", to_string(plan.exchange)},
              {"wire", to_string(plan.wire)},
              {"micro_batches", plan.micro_batches},
              {"relayed", plan.relayed}}
             .dump(1) +
         "\n";
}

Plan plan_from_json(const std::string& text, const std::string& file) {
  try {
    const Json json = parse_json(text);
    Plan plan{integer(json, "batch"), json.at("members").get<std::vector<std::string>>(), {}};
    for (const Json& stage : json.at("stages")) {
      StagePlan& shards = plan.stages.emplace_back();
      for (const Json& shard : stage.at("shards")) shards.shards.push_back(assignment_from_json(shard));
      shards.replicated = stage.value("replicated", false);
    }
    plan.exchange = exchange_from(json.value("exchange", "star"));
    plan.wire = number_type_from(json.value("wire", "fp32"));
    if (json.contains("micro_batches")) plan.micro_batches = integer(json, "micro_batches");
    plan.relayed = json.value("relayed", false);
    return plan;
  } catch (const Json::exception& error) {
    fail("{}: the file is not a plan: {}; expected the plan.json of a run", file, fault_of(error));
  } catch (const Error& error) {
    fail("{}: {}", file, error.what());
  }
}

}  // namespace convoy
