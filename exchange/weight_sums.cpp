#include "exchange/weight_sums.hpp"

#include <algorithm>

namespace convoy {

void put_weights(FilterRange of, std::span<const float> values, FilterRange range, ShardState& state) {
  const FilterRange both = common(of, range);
  for (Parameter& parameter : state.parameters) {
    const std::size_t filter = parameter.value.shape().sample_size();
    std::copy_n(values.data() + filter * static_cast<std::size_t>(both.first - of.first),
                filter * static_cast<std::size_t>(both.count),
                parameter.value.data() + filter * static_cast<std::size_t>(both.first - range.first));
    values = values.subspan(filter * static_cast<std::size_t>(of.count));
  }
}

namespace {

/// Returns the tensors of the gradients of `filters` filters, all 0; the tensor of an untrained parameter is empty.
std::vector<Tensor> zero_gradients(const Stage& stage, int filters) {
  std::vector<Tensor> gradients;
  for (const ParameterSpec& each : parameters_of(stage, filters)) {
    gradients.push_back(each.trained ? Tensor(each.shape, 0.0F) : Tensor());
  }
  return gradients;
}

/// The values of some filters in the gradients of one parameter of filters `of`.
template <class T>
auto run_of(T& gradient, FilterRange of, FilterRange some) {
  return gradient.samples(some.first - of.first, some.count);
}

}  // namespace

std::vector<Tensor>& WeightSums::sums(int stage) {
  std::vector<Tensor>& sums = sums_[stage];
  if (sums.empty()) sums = zero_gradients(plan_.trunk[stage], plan_.tile(stage).filters.count);
  return sums;
}

void WeightSums::add_up(const Task& sum) {
  const FilterRange tile = plan_.tile(sum.stage).filters;
  std::vector<Tensor>& sums = this->sums(sum.stage);
  const bool whole = filters_of(sum, sum.after.front()) == sum.filters;
  for (Tensor& each : sums) {
    if (!whole && each.size() > 0) std::ranges::fill(run_of(each, tile, sum.filters), 0.0F);
  }
  for (const int part : sum.after) add_part(sum, part, whole && part == sum.after.front());
  const auto sent = std::ranges::find_if(graph_.tasks, [&](const Task& each) {
    return each.cargo == Cargo::filter_sum && each.node == plan_.index && each.stage == sum.stage;
  });
  if (sent == graph_.tasks.end()) return;
  for (Tensor& each : sums) {
    if (each.size() > 0) round_to(wire_type(*sent, plan_.plan), run_of(each, tile, sum.filters));
  }
}

/// The filters of a sum to which one holder contributes.
FilterRange WeightSums::filters_of(const Task& sum, int part) const {
  const bool own = task(part).kind != TaskKind::send;
  return common(own ? plan_.tile(sum.stage).filters : task(part).filters, sum.filters);
}

/// Adds a holder's gradients to a sum. The `first` of all holders replaces the values that were there.
void WeightSums::add_part(const Task& sum, int part, bool first) {
  const FilterRange tile = plan_.tile(sum.stage).filters;
  const FilterRange both = filters_of(sum, part);
  std::vector<Tensor>& sums = sums_.at(sum.stage);
  if (task(part).kind == TaskKind::send) {
    ArrivedValues arrived(flights_.at(part), kept_type(task(part), plan_.plan));
    for (Tensor& each : sums) {
      if (each.size() > 0) arrived.decode_next(run_of(each, tile, both), !first);
    }
    flights_.erase(part);
    return;
  }
  const std::vector<Tensor>& own = own_.at(sum.stage);
  for (std::size_t p = 0; p < sums.size(); ++p) {
    if (sums[p].size() == 0) continue;
    const std::span<float> to = run_of(sums[p], tile, both);
    const std::span<const float> more = run_of(own[p], tile, both);
    if (first) {
      std::ranges::copy(more, to.begin());
    } else {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
    }
  }
}

void WeightSums::take_sum(int sent) {
  const FilterRange tile = plan_.tile(task(sent).stage).filters;
  const FilterRange both = common(task(sent).filters, tile);
  if (both.count == 0 || both != task(sent).filters) return;
  ArrivedValues arrived(flights_.at(sent), kept_type(task(sent), plan_.plan));
  for (Tensor& each : sums(task(sent).stage)) {
    if (each.size() > 0) arrived.decode_next(run_of(each, tile, both));
  }
}

std::vector<std::span<const float>> WeightSums::to_send(const Task& sent) const {
  const FilterRange tile = plan_.tile(sent.stage).filters;
  std::vector<std::span<const float>> runs;
  for (const Tensor& gradient : (sent.cargo == Cargo::filter_sum ? sums_ : own_).at(sent.stage)) {
    if (gradient.size() > 0) runs.push_back(run_of(gradient, tile, sent.filters));
  }
  return runs;
}

}  // namespace convoy
