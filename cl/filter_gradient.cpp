#include "cl/filter_gradient.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace convoy {

namespace {

ClGradientTile gradient_tile_for(const ClShared& shared, const ShardSpec& spec) {
  // From this many taps on, vectors of filters save a processor more than transposing the gradient costs (measured on
  // PoCL).
  constexpr int kManyTaps = 256;
  const Convolution& conv = spec.stage.conv;
  const bool processor = shared.context.is_processor();
  ClGradientTile tile{
      .width = shared.vector_width, .blocks = processor ? 5 : 1, .half = shared.context.settings().half};
  const bool many = spec.stage.channels * conv.kernel_h * conv.kernel_w >= kManyTaps;
  if (processor && !tile.half && many) tile.take_vectors_of_filters(spec.filters.count, conv.kernel_w);
  return tile;
}

}  // namespace

ClFilterGradient::ClFilterGradient(ClShared& shared, const ShardSpec& spec)
    : shared_(shared),
      in_(input_shape(spec.stage, spec.batch)),
      out_(conv_shape(spec.stage, spec.batch, spec.filters.count)),
      kernel_h_(spec.stage.conv.kernel_h),
      kernel_w_(spec.stage.conv.kernel_w),
      kernels_(shared.filter_gradient(spec.stage.conv, gradient_tile_for(shared, spec))) {
  const std::string what = fmt::format("stage {}: ", spec.stage.name);
  const ClGradientTile& tile = kernels_.tile;
  if (tile.by_filters) {
    const std::size_t filters = static_cast<std::size_t>(filter_blocks()) * tile.filters;
    const std::size_t places = static_cast<std::size_t>(out_.n) * out_.h * out_.w;
    side_by_side_ = shared.context.allocate(filters * places * sizeof(float), what + "gradient");
  } else if (out_.w % tile.width != 0) {
    padded_.emplace(shared, out_,
                    PackedMaps::Geometry{.rows = out_.h, .pitch = round_up(out_.w, tile.width), .by_channel = true},
                    what + "gradient");
  }
  make_slices(what);
}

int ClFilterGradient::tap_groups() const { return blocks(taps(), kernels_.tile.taps * kernels_.tile.blocks); }

void ClFilterGradient::make_slices(const std::string& what) {
  // There are enough work-items for the device; the batch is sliced only where the weights alone give too few.
  const int wanted = shared_.units * (shared_.context.is_processor() ? 4 : 256);
  slices_ = std::clamp(blocks(wanted, tap_groups() * filter_blocks()), 1, out_.n);
  if (slices_ == 1) return;
  const std::size_t weights = static_cast<std::size_t>(out_.c) * taps();
  weight_slices_ = shared_.context.allocate(slices_ * weights * sizeof(float), what + "gradients");
}

void ClFilterGradient::compute(const PackedMaps& input, const ClBuffer& gradient, const ClBuffer& weight_gradient) {
  const Laid laid = lay(gradient);
  const ClBuffer& sums = slices_ > 1 ? weight_slices_ : weight_gradient;
  const ClRange range{static_cast<std::size_t>(tap_groups()), static_cast<std::size_t>(filter_blocks()),
                      static_cast<std::size_t>(slices_)};
  const int chunk = kernels_.tile.chunk(static_cast<std::size_t>(out_.h) * laid.columns);
  shared_.context.launch(kernels_.filter_gradient, range, input.buffer(), laid.gradient, sums, out_.n, slices_, chunk,
                         in_.c, input.plane(), input.row(), input.phase(), out_.c, out_.h, out_.w, laid.sample,
                         laid.filter, laid.row);
  if (slices_ == 1) return;
  const int weights = out_.c * taps();
  shared_.context.launch(shared_.layers.sum_slices, shared_.chunks(weights), sums, weight_gradient, slices_, weights,
                         shared_.chunk());
}

ClFilterGradient::Laid ClFilterGradient::lay(const ClBuffer& gradient) {
  const auto places = static_cast<cl_ulong>(out_.h) * static_cast<cl_ulong>(out_.w);
  const auto samples = static_cast<cl_ulong>(out_.n);
  if (kernels_.tile.by_filters) {
    const auto filters = static_cast<cl_ulong>(kernels_.tile.filters);
    shared_.context.launch(kernels_.side_by_side,
                           {1, static_cast<std::size_t>(filter_blocks()), static_cast<std::size_t>(out_.n)}, gradient,
                           side_by_side_, out_.n, out_.c, out_.h * out_.w);
    return {side_by_side_, out_.w, places * filters, places * filters * samples, out_.w * kernels_.tile.filters};
  }
  if (!padded_) return {gradient, out_.w, places * static_cast<cl_ulong>(out_.c), places, out_.w};
  padded_->fill(shared_, gradient, {0, out_.n});
  const auto plane = static_cast<cl_ulong>(padded_->plane());
  return {padded_->buffer(), padded_->row(), plane, plane * samples, padded_->row()};
}

}  // namespace convoy
