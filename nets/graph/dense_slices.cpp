#include "nets/graph/dense_slices.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace convoy {
namespace {

/// More slices fit unequal members better, but each costs a sum for each unit, and planning takes longer.
constexpr int kMostSlices = 16;
/// How many times more inputs a layer has than all slices together have sums, where there are more slices than members.
constexpr int kFewSums = 8;

/// Returns the first dense layer of the only head, if it reads maps of more than a pixel; else null.
const Layer* sliceable(const Cut& whole) {
  if (whole.trunk.empty() || whole.heads.size() != 1) return nullptr;
  const CutHead& head = whole.heads[0];
  const auto first = std::ranges::find_if_not(
      head.layers, [](const Layer& each) { return std::holds_alternative<Flatten>(each.spec); });
  const bool dense = std::holds_alternative<Dense>(first->spec) && head.maps.height * head.maps.width > 1;
  return dense ? &*first : nullptr;
}

}  // namespace

int slices_for(const Cut& whole, int members) {
  const Layer* layer = sliceable(whole);
  if (layer == nullptr || members < 2) return 0;
  const FeatureShape& maps = whole.heads[0].maps;
  const int units = std::get<Dense>(layer->spec).units;
  int slices = std::min(members, kMostSlices);
  while (slices + members <= kMostSlices && kFewSums * (slices + members) * units <= maps.size()) slices += members;
  slices = std::min(slices, maps.channels);
  return slices < 2 ? 0 : slices;
}

std::optional<DenseSlices> slice_dense(const Cut& whole, int count) {
  const Layer* layer = sliceable(whole);
  if (layer == nullptr || count < 2 || count > whole.heads[0].maps.channels) return std::nullopt;
  const CutHead& head = whole.heads[0];
  const FeatureShape& maps = head.maps;
  const int filters = std::get<Dense>(layer->spec).units;
  DenseSlices slices{.cut = whole, .first = whole.trunk.size(), .channels = {}};
  std::vector<Stage>& trunk = slices.cut.trunk;
  const int last = static_cast<int>(trunk.size()) - 1;
  const FilterRange units{0, filters};
  const auto begin_of = [&](int slice) { return static_cast<int>(std::int64_t{maps.channels} * slice / count); };
  for (int slice = 0; slice < count; ++slice) {
    const FilterRange channels{begin_of(slice), begin_of(slice + 1) - begin_of(slice)};
    slices.channels.push_back(channels);
    trunk.push_back({.name = fmt::format("{}/{}", layer->name, slice + 1),
                     .channels = channels.count,
                     .height = maps.height,
                     .width = maps.width,
                     .conv = {.filters = filters,
                              .kernel_h = maps.height,
                              .kernel_w = maps.width,
                              .bias = slice == 0,
                              .rate = layer->rate},
                     .after = {},
                     .moments = whole.moments,
                     .from = {{last, channels}}});
  }
  Stage sum = stage_without_weights(layer->name, StageKind::channels, filters, 1, 1);
  sum.moments = whole.moments;
  sum.from = {{last + 1, units}};
  for (int slice = 1; slice < count; ++slice) sum.after.emplace_back(Add{{{last + 1 + slice, units}}});
  trunk.push_back(std::move(sum));

  CutHead& rest = slices.cut.heads[0];
  rest.maps = {filters, 1, 1};
  rest.layers.erase(rest.layers.begin(), rest.layers.begin() + (layer - head.layers.data()) + 1);
  validate(trunk);
  return slices;
}

}  // namespace convoy
