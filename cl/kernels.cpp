#include "cl/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace convoy {
namespace {

std::string common_options(const ClContext& context) {
  return context.is_processor() ? "-cl-std=CL1.2 -DPROCESSOR" : "-cl-std=CL1.2";
}

/// Returns the options of vectors.cl.
std::string vector_options(const ClContext& context, const Convolution& geometry, int width, bool half) {
  return fmt::format("{} -DKERNEL_H={} -DKERNEL_W={} -DSTRIDE_H={} -DSTRIDE_W={} -DWIDTH={}{}{}",
                     common_options(context), geometry.kernel_h, geometry.kernel_w, geometry.stride_h,
                     geometry.stride_w, width, context.has_fma() ? " -DFMA" : "", half ? " -DHALF" : "");
}

std::string over_maps(const char* source) { return std::string(kMapsSource) + source; }

}  // namespace

LayerKernels::LayerKernels(ClContext& context) {
  const std::vector<std::pair<const char*, ClKernel*>> all = {{"pack", &pack},
                                                              {"pack_weights", &pack_weights},
                                                              {"apply_activation", &apply_activation},
                                                              {"activation_gradient", &activation_gradient},
                                                              {"multiply", &multiply},
                                                              {"multiply_by_points", &multiply_by_points},
                                                              {"sum_products", &sum_products},
                                                              {"add", &add},
                                                              {"take_channels", &take_channels},
                                                              {"max_pool", &max_pool},
                                                              {"max_pool_gradient", &max_pool_gradient},
                                                              {"fused_pool_gradient", &fused_pool_gradient},
                                                              {"average_pool", &average_pool},
                                                              {"average_pool_gradient", &average_pool_gradient},
                                                              {"sum_maps", &sum_maps},
                                                              {"sum_slices", &sum_slices}};
  std::vector<std::string> names;
  for (const auto& [name, kernel] : all) names.emplace_back(name);
  const std::vector<ClKernel> built = context.build(over_maps(kLayersSource), common_options(context), names);
  for (std::size_t i = 0; i < all.size(); ++i) *all[i].second = built[i];
  const std::string rounding = context.rounds_correctly() ? " -cl-fp32-correctly-rounded-divide-sqrt" : "";
  const std::vector<ClKernel> updates =
      context.build(kUpdateSource, common_options(context) + rounding, {"find_broken", "update"});
  find_broken = updates[0];
  update = updates[1];
  if (!context.settings().half) return;
  const std::vector<ClKernel> half =
      context.build(over_maps(kLayersSource), common_options(context) + " -DHALF", {"pack", "pack_weights"});
  pack_half = half[0];
  pack_weights_half = half[1];
}

ActivationKernels::ActivationKernels(ClContext& context, int activation) {
  const std::vector<ClKernel> built = context.build(
      over_maps(kActivationSource), fmt::format("{} -DACTIVATION={}", common_options(context), activation),
      {"activate_maps", "activate_maps_gradient"});
  activate = built[0];
  gradient = built[1];
}

NormKernels::NormKernels(ClContext& context) {
  const std::vector<ClKernel> built =
      context.build(over_maps(kNormSource), common_options(context),
                    {"square_distances", "norm_moments", "normalise", "norm_products", "norm_gradient"});
  square_distances = built[0];
  norm_moments = built[1];
  normalise = built[2];
  norm_products = built[3];
  norm_gradient = built[4];
}

ChannelKernels::ChannelKernels(ClContext& context) {
  const std::vector<ClKernel> built =
      context.build(over_maps(kChannelsSource), common_options(context),
                    {"shuffle_channels", "normalise_response", "response_parts", "response_gradient"});
  shuffle_channels = built[0];
  normalise_response = built[1];
  response_parts = built[2];
  response_gradient = built[3];
}

GroupNormKernels::GroupNormKernels(ClContext& context, bool by_position) {
  const std::vector<ClKernel> built =
      context.build(over_maps(kGroupNormSource), common_options(context) + (by_position ? " -DBY_POSITION" : ""),
                    {"set_moments", "set_slopes", "normalise_groups", "normalise_groups_gradient"});
  set_moments = built[0];
  set_slopes = built[1];
  normalise = built[2];
  gradient = built[3];
}

GroupNormKernels GroupNormKernels::timed_apart() const {
  GroupNormKernels apart = *this;
  for (ClKernel* kernel : {&apart.set_moments, &apart.set_slopes, &apart.normalise, &apart.gradient}) {
    *kernel = kernel->timed_apart();
  }
  return apart;
}

ResizeKernels::ResizeKernels(ClContext& context) {
  const std::vector<ClKernel> built =
      context.build(over_maps(kResizeSource), common_options(context), {"resize_maps", "resize_maps_gradient"});
  resize = built[0];
  gradient = built[1];
}

DropoutKernels::DropoutKernels(ClContext& context)
    : drop_out(context.build(over_maps(kDropoutSource), common_options(context), {"drop_out"}).front()) {}

ColumnKernels::ColumnKernels(ClContext& context) {
  const std::vector<ClKernel> built = context.build(over_maps(kColumnsSource), common_options(context),
                                                    {"to_columns", "from_columns", "from_channels", "to_channels"});
  to_columns = built[0];
  from_columns = built[1];
  from_channels = built[2];
  to_channels = built[3];
}

GroupedKernels::GroupedKernels(ClContext& context) {
  const std::vector<ClKernel> built =
      context.build(over_maps(kGroupedSource), common_options(context),
                    {"grouped_convolve", "grouped_input_gradient", "grouped_filter_gradient"});
  convolve = built[0];
  input_gradient = built[1];
  filter_gradient = built[2];
}

GroupedKernels GroupedKernels::timed_apart() const {
  GroupedKernels copy = *this;
  for (ClKernel* kernel : {&copy.convolve, &copy.input_gradient, &copy.filter_gradient})
    *kernel = kernel->timed_apart();
  return copy;
}

int filters_of_tile(int filters, bool images) {
  // The cost of a tile relative to its work: a small tile loads more values for each multiplication (measured on PoCL).
  constexpr std::array<std::pair<int, double>, 3> kTiles{{{8, 1.05}, {10, 1.0}, {12, 1.0}}};
  const auto cost = [&](const std::pair<int, double>& tile) {
    if (images && tile.first % 4 != 0) return std::numeric_limits<double>::max();
    const int tiles = (filters + tile.first - 1) / tile.first;
    return tiles * tile.first * tile.second;
  };
  return std::ranges::min(kTiles, {}, cost).first;
}

void ClGradientTile::take_vectors_of_filters(int count, int kernel_w) {
  by_filters = true;
  // The limits assume 32 or 16 vector registers; the costs are as in filters_of_tile.
  const int sums = width >= 16 ? 24 : 12;
  constexpr std::array<std::pair<int, double>, 3> kVectors{{{1, 1.05}, {2, 1.0}, {3, 1.0}}};
  const auto cost = [&](const std::pair<int, double>& vectors) {
    if (vectors.first > 1 && vectors.first * kernel_w > sums) return std::numeric_limits<double>::max();
    const int size = vectors.first * width;
    const int tiles = (count + size - 1) / size;
    return tiles * size * vectors.second;
  };
  const int vectors = std::ranges::min(kVectors, {}, cost).first;
  filters = vectors * width;
  taps = std::max(1, sums / (vectors * kernel_w)) * kernel_w;
}

int ClGradientTile::chunk(std::size_t plane) const {
  constexpr std::size_t kCache = 24 << 10;  // three quarters of a small first-level data cache, in bytes
  const std::size_t sample = static_cast<std::size_t>(filters) * plane * sizeof(float);
  return static_cast<int>(std::max<std::size_t>(1, kCache / sample));
}

ConvolutionKernels::ConvolutionKernels(ClContext& context, const ClTile& tile_of_item, const Convolution& geometry)
    : tile(tile_of_item) {
  const std::string options =
      vector_options(context, geometry, tile.width, tile.half) +
      fmt::format(" -DFILTERS={}{}{}", tile.filters, tile.images ? " -DIMAGES" : "", tile.pools ? " -DPOOL" : "");
  convolve = context.build(std::string(kVectorsSource) + kConvolutionSource, options, {"convolve"}).front();
}

FilterGradientKernels::FilterGradientKernels(ClContext& context, const ClGradientTile& tile_of_item,
                                             const Convolution& geometry)
    : tile(tile_of_item) {
  const std::string options = vector_options(context, geometry, tile.width, tile.half) +
                              fmt::format(" -DGRADIENT_FILTERS={} -DGRADIENT_TAPS={} -DGRADIENT_BLOCKS={}{}",
                                          tile.filters, tile.taps, tile.blocks, tile.by_filters ? " -DBY_FILTERS" : "");
  std::vector<std::string> names{"filter_gradient"};
  if (tile.by_filters) names.emplace_back("side_by_side");
  const std::vector<ClKernel> built =
      context.build(std::string(kVectorsSource) + kFilterGradientSource, options, names);
  filter_gradient = built[0];
  if (tile.by_filters) side_by_side = built[1];
}

FilterGradientKernels FilterGradientKernels::timed_apart() const {
  FilterGradientKernels copy = *this;
  copy.filter_gradient = filter_gradient.timed_apart();
  if (tile.by_filters) copy.side_by_side = side_by_side.timed_apart();
  return copy;
}

}  // namespace convoy
