#include "plan/plan.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/shard_state.hpp"
#include "plan/dense_slices.hpp"

namespace convoy {
namespace {

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
                                          .rows = false,
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
    for (StagePlan& stage : plan.stages) stage.replicated = everywhere(stage);
  }
  if (!traits.rows && std::ranges::any_of(plan.stages, has_several_rows)) {
    fail("plan: the plan cuts stages along samples, which the exchange {} does not support; choose star or ring",
         to_string(exchange));
  }
  if (!traits.relayed_images) plan.relayed = false;
  if (!traits.micro_batches) set_micro_batches(plan, 1);
}

bool is_master(const std::string& member) { return member == kMasterName; }

bool has_master(const Plan& plan) { return !plan.members.empty() && is_master(plan.members.back()); }

bool is_master_alone(const Plan& plan) { return plan.members.size() == 1 && has_master(plan); }

int micro_batch_size(const Plan& plan) { return plan.batch / plan.micro_batches; }

void set_micro_batches(Plan& plan, int micro_batches) {
  plan.micro_batches = micro_batches;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    std::vector<Row>& rows = plan.stages[s].rows;
    if (rows.empty()) continue;
    std::vector<double> shares;
    for (const Row& row : rows) shares.push_back(row.samples.count);
    const std::vector<int> counts = apportion(micro_batch_size(plan), shares);
    int first = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (counts[r] == 0) {
        fail("plan: stage {}: a row would have none of the {} samples of a micro-batch; take fewer micro-batches", s,
             micro_batch_size(plan));
      }
      rows[r].samples = {first, counts[r]};
      first += counts[r];
    }
  }
}

bool cut_by_samples_alone(const StagePlan& stage) {
  return has_several_rows(stage) &&
         std::ranges::all_of(stage.rows, [](const Row& row) { return row.shards.size() == 1; });
}

StagePlan rows_of(const Stage& stage, const std::vector<int>& samples, const std::vector<double>& speeds) {
  StagePlan cut;
  int first = 0;
  for (std::size_t m = 0; m < samples.size(); ++m) {
    if (samples[m] == 0) continue;
    cut.rows.push_back({{first, samples[m]}, {{static_cast<int>(m), {0, stage.conv.filters}}}});
    first += samples[m];
  }
  if (has_parameters(stage)) cut.owners = stage_plan(apportion(stage.conv.filters, speeds), 0).rows[0].shards;
  return cut;
}

bool cut_by_samples(Plan& plan, const std::vector<Stage>& trunk, std::size_t stages, std::vector<double> speeds) {
  const std::vector<int> samples = apportion(micro_batch_size(plan), speeds);
  if (std::ranges::count_if(samples, [](int count) { return count > 0; }) < 2) return false;
  for (std::size_t m = 0; m < speeds.size(); ++m) {
    if (samples[m] == 0) speeds[m] = 0.0;
  }
  for (std::size_t s = 0; s < stages; ++s) {
    if (!everywhere(plan.stages[s])) plan.stages[s] = rows_of(trunk[s], samples, speeds);
  }
  return true;
}

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

int filters_in(const StagePlan& stage) {
  if (stage.rows.empty() || stage.rows[0].shards.empty()) return 0;
  const FilterRange& last = stage.rows[0].shards.back().filters;
  return last.first + last.count;
}

StagePlan one_row(std::vector<Assignment> shards, int samples) {
  StagePlan plan;
  plan.rows.push_back({{0, samples}, std::move(shards)});
  return plan;
}

StagePlan stage_plan(const std::vector<int>& filters_by_member, int samples) {
  std::vector<Assignment> shards;
  int first = 0;
  for (std::size_t member = 0; member < filters_by_member.size(); ++member) {
    const int count = filters_by_member[member];
    if (count > 0) shards.push_back({static_cast<int>(member), {first, count}});
    first += count;
  }
  return one_row(std::move(shards), samples);
}

bool everywhere(const StagePlan& stage) { return stage.rows.empty(); }

bool has_several_rows(const StagePlan& stage) { return stage.rows.size() > 1; }

std::vector<Tile> tiles_of(const StagePlan& stage) {
  std::vector<Tile> tiles;
  for (const Row& row : stage.rows) {
    for (const Assignment& shard : row.shards) tiles.push_back({shard.member, shard.filters, row.samples});
  }
  return tiles;
}

Tile tile_of(const StagePlan& stage, int member) {
  for (const Row& row : stage.rows) {
    for (const Assignment& shard : row.shards) {
      if (shard.member == member) return {member, shard.filters, row.samples};
    }
  }
  return {.member = member, .filters = {}, .samples = {}};
}

const std::vector<Assignment>& owners_of(const StagePlan& stage) {
  return stage.owners.empty() && stage.rows.size() == 1 ? stage.rows[0].shards : stage.owners;
}

bool takes_sums(const Plan& plan, int owner, int holder) {
  return !std::ranges::binary_search(plan.unequal, owner) && !std::ranges::binary_search(plan.unequal, holder);
}

bool has_tiles(const Plan& plan, int member) {
  return std::ranges::any_of(plan.stages,
                             [member](const StagePlan& stage) { return !tile_of(stage, member).box().empty(); });
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
        "plan: the exchange {} does not support norms, shuffled channels, resized maps or grouped convolution, which "
        "stage "
        "{} has; choose --exchange star or ring",
        to_string(exchange), found->name);
  }
}

namespace {

/// Whether all stages that read a stage's maps are depthwise convolutions.
bool only_depthwise_read(const std::vector<Stage>& trunk, std::size_t stage) {
  for (std::size_t reader = 0; reader < trunk.size(); ++reader) {
    const bool depthwise = trunk[reader].kind == StageKind::convolution && trunk[reader].conv.groups > 1 &&
                           trunk[reader].conv.groups == trunk[reader].channels;
    if (depthwise) continue;
    for (const Sources& sources : reads_of(trunk, reader)) {
      if (std::ranges::any_of(sources, [&](const Source& source) { return std::cmp_equal(source.stage, stage); })) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

bool better_replicated(const std::vector<Stage>& trunk, std::size_t stage) {
  const Stage& made = trunk[stage];
  const std::vector<int> outputs = outputs_of(trunk);
  if (has_parameters(made) || std::ranges::find(outputs, static_cast<int>(stage)) != outputs.end()) return false;
  // Who computes a part of a group norm's channels, or of what a depthwise convolution reads, needs no more than about
  // the same channels of what comes before it.
  if (made.kind == StageKind::group_norm || only_depthwise_read(trunk, stage)) return false;
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

Plan whole_plan(const std::vector<Stage>& trunk, int batch, const std::string& member) {
  return proportional_plan(trunk, batch, {member}, {1.0});
}

Plan proportional_plan(const std::vector<Stage>& trunk, int batch, const std::vector<std::string>& members,
                       const std::vector<double>& speeds) {
  invariant(members.size() == speeds.size(), "each member has a speed");
  Plan plan{batch, members, {}};
  std::vector<std::vector<int>> counts;  // by stage
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    counts.push_back(apportion(trunk[s].conv.filters, speeds));
    if (better_replicated(trunk, s)) {
      plan.stages.push_back({.rows = {}, .owners = {}, .replicated = true});
      continue;
    }
    if (is_dense_slice(trunk, s)) {
      const auto source = static_cast<std::size_t>(reads_of(trunk, s)[0][0].stage);
      counts[s] = shares_of_slice(trunk, s, counts[source], std::vector<bool>(members.size(), true));
    }
    plan.stages.push_back(stage_plan(counts[s], batch));
  }
  return plan;
}

std::vector<double> work_shares(const std::vector<Stage>& stages, const Plan& plan) {
  std::vector<double> flops(plan.members.size(), 0.0);
  double sum = 0.0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const Tile& tile : tiles_of(plan.stages[s])) {
      const double work = conv_flops(stages[s], tile.samples.count, tile.filters.count);
      flops[tile.member] += work;
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
  const auto replicated =
      std::ranges::count_if(plan.stages, [](const StagePlan& stage) { return stage.replicated && !everywhere(stage); });
  if (replicated > 0) text += fmt::format(", first {} replicated", replicated == 1 ? "stage" : "stages");
  const auto by_samples = std::ranges::count_if(plan.stages, has_several_rows);
  if (by_samples > 0) text += fmt::format(", {} of {} stages cut along samples", by_samples, plan.stages.size());
  if (plan.early_sums > 0) {
    text += fmt::format(", sums of the last {} sent early",
                        plan.early_sums == 1 ? "stage" : fmt::format("{} stages", plan.early_sums));
  }
  return text;
}

}  // namespace convoy
