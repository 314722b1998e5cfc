#include "plan/dense_slices.hpp"

#include <algorithm>

namespace convoy {

bool is_dense_slice(const std::vector<Stage>& trunk, std::size_t stage) {
  const Stage& made = trunk[stage];
  const Convolution& conv = made.conv;
  if (made.kind != StageKind::convolution || conv.groups > 1) return false;
  if (conv.kernel_h != made.height || conv.kernel_w != made.width) return false;
  const Shape out = conv_shape(made, 1, 1);
  if (out.h != 1 || out.w != 1) return false;
  const Sources from = reads_of(trunk, stage)[0];
  return from.size() == 1 && from[0].stage >= 0 && from[0].channels.count < trunk[from[0].stage].conv.filters;
}

std::size_t first_dense_slice(const std::vector<Stage>& trunk) {
  std::size_t stage = 0;
  while (stage < trunk.size() && !is_dense_slice(trunk, stage)) ++stage;
  return stage;
}

bool adds_few_slices(const std::vector<Stage>& trunk, std::size_t stage, int batch) {
  constexpr std::size_t kFewValues = 1U << 16U;
  if (trunk[stage].kind != StageKind::channels) return false;
  const std::vector<Sources> reads = reads_of(trunk, stage);
  const auto is_slice = [&](const Sources& from) {
    return from.size() == 1 && from[0].stage >= 0 && is_dense_slice(trunk, static_cast<std::size_t>(from[0].stage));
  };
  const std::size_t values = reads.size() * output_shape(trunk[stage], batch, trunk[stage].conv.filters).size();
  return values <= kFewValues && std::ranges::all_of(reads, is_slice);
}

std::vector<int> shares_of_slice(const std::vector<Stage>& trunk, std::size_t slice, const std::vector<int>& filters,
                                 const std::vector<bool>& may_hold) {
  const FilterRange channels = reads_of(trunk, slice)[0][0].channels;
  std::vector<int> shares(may_hold.size(), 0);
  std::size_t holder = shares.size();
  int most = -1;
  int first = 0;
  for (std::size_t m = 0; m < shares.size(); ++m) {
    const int count = filters.empty() ? 0 : filters[m];
    const int own = common({first, count}, channels).count;
    first += count;
    if (!may_hold[m] || own <= most) continue;
    holder = m;
    most = own;
  }
  if (holder == shares.size()) return {};
  shares[holder] = trunk[slice].conv.filters;
  return shares;
}

}  // namespace convoy
