#include "exchange/weight_sums.hpp"

#include <algorithm>
#include <utility>

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
  for (Tensor& each : sums) {
    if (each.size() > 0) std::ranges::fill(run_of(each, tile, sum.filters), 0.0F);
  }
  for (const int part : sum.after) add_part(sum, part);
  const auto sent = std::ranges::find_if(graph_.tasks, [&](const Task& each) {
    return each.cargo == Cargo::filter_sum && each.node == plan_.index && each.stage == sum.stage;
  });
  if (sent == graph_.tasks.end()) return;
  for (Tensor& each : sums) {
    if (each.size() > 0) round_to(wire_type(*sent, plan_.plan), run_of(each, tile, sum.filters));
  }
}

void WeightSums::add_part(const Task& sum, int part) {
  const bool own = task(part).kind != TaskKind::send;
  const FilterRange tile = plan_.tile(sum.stage).filters;
  const FilterRange both = common(own ? tile : task(part).filters, sum.filters);
  if (!own) {
    take_floats(flights_.at(part), task(part), plan_.plan, values_of(task(part), plan_.trunk), scratch_);
    flights_.erase(part);
  }
  std::span<const float> received = scratch_;
  std::vector<Tensor>& sums = sums_.at(sum.stage);
  for (std::size_t p = 0; p < sums.size(); ++p) {
    if (sums[p].size() == 0) continue;
    const std::span<float> to = run_of(sums[p], tile, both);
    const std::span<const float> more = own ? run_of(std::as_const(own_.at(sum.stage)[p]), tile, both)
                                            : std::exchange(received, received.subspan(to.size())).first(to.size());
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
  }
}

void WeightSums::take_sum(int sent) {
  const FilterRange tile = plan_.tile(task(sent).stage).filters;
  const FilterRange both = common(task(sent).filters, tile);
  if (both.count == 0 || both != task(sent).filters) return;
  take_floats(flights_.at(sent), task(sent), plan_.plan, values_of(task(sent), plan_.trunk), scratch_);
  std::span<const float> received = scratch_;
  for (Tensor& each : sums(task(sent).stage)) {
    if (each.size() == 0) continue;
    const std::span<float> to = run_of(each, tile, both);
    std::ranges::copy(received.first(to.size()), to.begin());
    received = received.subspan(to.size());
  }
}

void WeightSums::put_to_send(const Task& sent, AlignedVector<float>& to) const {
  const FilterRange tile = plan_.tile(sent.stage).filters;
  to.clear();
  for (const Tensor& gradient : (sent.cargo == Cargo::filter_sum ? sums_ : own_).at(sent.stage)) {
    if (gradient.size() == 0) continue;
    const std::span<const float> part = run_of(gradient, tile, sent.filters);
    to.insert(to.end(), part.begin(), part.end());
  }
}

}  // namespace convoy
