#include "plan/families.hpp"

#include <algorithm>
#include <utility>

#include "core/shard_state.hpp"
#include "plan/dense_slices.hpp"

namespace convoy {
namespace {

constexpr int kMostMicroBatches = 16;
constexpr int kMostMicroBatchesOfRows = 4;
constexpr std::size_t kMostReplicated = 2;

Family family_of(Form form, const std::vector<int>& micro_batches) {
  Family family;
  for (const int count : micro_batches) {
    if (form.by_samples > 0 && count > kMostMicroBatchesOfRows && !family.empty()) continue;
    form.micro_batches = count;
    family.push_back(form);
  }
  return family;
}

/// Returns the families in which first stages are cut along samples: a quarter, a half, three quarters and all of the
/// stages before a dense layer's slices, and all stages.
std::vector<Family> families_by_samples(const std::vector<Stage>& trunk, const std::vector<int>& micro_batches,
                                        const Wishes& wishes) {
  const std::size_t most = first_dense_slice(trunk);
  std::vector<Family> all;
  std::size_t before = 0;
  for (const std::size_t stages : {most / 4, most / 2, most * 3 / 4, most, trunk.size()}) {
    if (stages == std::exchange(before, stages)) continue;
    for (const Exchange exchange : {Exchange::star, Exchange::ring}) {
      if (wishes.exchange && *wishes.exchange != exchange) continue;
      all.push_back(family_of({.exchange = exchange, .by_samples = stages}, micro_batches));
    }
  }
  return all;
}

}  // namespace

std::vector<Family> families(const std::vector<Stage>& trunk, int batch, const Wishes& wishes) {
  std::vector<int> micro_batches;
  for (int count = 1; count <= kMostMicroBatches; count *= 2) {
    if (batch % count == 0) micro_batches.push_back(count);
  }
  if (wishes.micro_batches > 0) micro_batches = {wishes.micro_batches};
  if (wishes.exchange && !traits_of(*wishes.exchange).fused_stages) return {{{.exchange = *wishes.exchange}}};
  if (wishes.layout == Layout::samples) return families_by_samples(trunk, micro_batches, wishes);
  // The maps of a replicated stage never travel, but those of an output go to the master.
  const auto before_outputs = static_cast<std::size_t>(std::ranges::min(outputs_of(trunk)));
  std::vector<Family> all;
  for (const Exchange exchange : {Exchange::star, Exchange::ring}) {
    if (wishes.exchange && *wishes.exchange != exchange) continue;
    const std::size_t most = exchange == Exchange::ring ? std::min(before_outputs, kMostReplicated) : 0;
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

std::vector<int> early_sums_to_try(const Plan& plan, const std::vector<Stage>& trunk) {
  std::vector<double> from(trunk.size() + 1, 0.0);  // the weights of each stage and of those behind it
  for (std::size_t s = trunk.size(); s-- > 0;) {
    from[s] = from[s + 1];
    if (trunk[s].moments == 0 || !has_several_rows(plan.stages[s])) continue;
    for (const ParameterSpec& each : parameters_of(trunk[s], trunk[s].conv.filters)) {
      if (each.trained) from[s] += static_cast<double>(each.shape.size());
    }
  }
  std::vector<int> counts;
  if (!(from[0] > 0.0)) return counts;
  for (const double part : {0.1, 0.2, 0.3, 0.4, 0.5}) {
    std::size_t first = trunk.size();
    while (from[first] < part * from[0]) --first;
    const auto count = static_cast<int>(trunk.size() - first);
    if (counts.empty() || counts.back() < count) counts.push_back(count);
  }
  return counts;
}

}  // namespace convoy
