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

bool is_dense(const Layer& layer) { return std::holds_alternative<Dense>(layer.spec); }

/// Returns the first layer of a head that computes.
const Layer& first_of(const CutHead& head) {
  return *std::ranges::find_if_not(head.layers,
                                   [](const Layer& each) { return std::holds_alternative<Flatten>(each.spec); });
}

}  // namespace

std::string obstacle_to_slices(const Cut& whole, int members) {
  if (members < 2) return "there is one member";
  if (whole.trunk.empty()) return "the net has no convolution";
  if (whole.heads.size() != 1) return "the net has several losses";
  const CutHead& head = whole.heads[0];
  const Layer& first = first_of(head);
  if (!is_dense(first)) {
    if (std::ranges::any_of(head.layers, is_dense)) return fmt::format("layer {} is in front of it", first.name);
    return "the master has none, because a dense layer in front of layers that only stages have is a stage itself";
  }
  if (head.maps.height * head.maps.width == 1) {
    return fmt::format("layer {} reads single numbers, as behind a global pooling, instead of maps", first.name);
  }
  if (head.maps.channels < 2) return fmt::format("layer {} reads a single channel", first.name);
  return "";
}

int slices_for(const Cut& whole, int members) {
  if (!obstacle_to_slices(whole, members).empty()) return 0;
  const FeatureShape& maps = whole.heads[0].maps;
  const int units = std::get<Dense>(first_of(whole.heads[0]).spec).units;
  int slices = std::min(members, kMostSlices);
  while (slices + members <= kMostSlices && kFewSums * (slices + members) * units <= maps.size()) slices += members;
  return std::min(slices, maps.channels);
}

std::optional<DenseSlices> slice_dense(const Cut& whole, int count) {
  if (!obstacle_to_slices(whole, count).empty() || count > whole.heads[0].maps.channels) return std::nullopt;
  const CutHead& head = whole.heads[0];
  const Layer* layer = &first_of(head);
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
