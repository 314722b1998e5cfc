#include "core/stage.hpp"

#include <algorithm>
#include <cmath>

namespace convoy {
namespace {

void validate_window(const std::string& stage, const char* what, int kernel, int stride, int pad_before, int pad_after,
                     int extent) {
  if (kernel < 1 || stride < 1) fail("stage {}: {} kernel and stride must be at least 1", stage, what);
  if (pad_before < 0 || pad_after < 0 || pad_before >= kernel || pad_after >= kernel) {
    fail("stage {}: {} padding must be at least 0 and smaller than the kernel ({})", stage, what, kernel);
  }
  if (window_output(extent, kernel, stride, pad_before, pad_after) < 1) {
    fail("stage {}: the {} kernel ({}) does not fit into {} elements with padding {}+{}", stage, what, kernel, extent,
         pad_before, pad_after);
  }
}

constexpr int kLargestExtent = 1 << 20;
constexpr int kMostMoments = 2;

}  // namespace

int window_output(int extent, int kernel, int stride, int pad_before, int pad_after) {
  const int room = extent + pad_before + pad_after - kernel;
  return room < 0 ? 0 : room / stride + 1;
}

FilterRange common(FilterRange a, FilterRange b) {
  const int first = std::max(a.first, b.first);
  return {first, std::max(0, std::min(a.first + a.count, b.first + b.count) - first)};
}

Shape input_shape(const Stage& stage, int batch) { return {batch, stage.channels, stage.height, stage.width}; }

Shape conv_shape(const Stage& stage, int batch, int filters) {
  const Convolution& conv = stage.conv;
  return {batch, filters, window_output(stage.height, conv.kernel_h, conv.stride_h, conv.pad.top, conv.pad.bottom),
          window_output(stage.width, conv.kernel_w, conv.stride_w, conv.pad.left, conv.pad.right)};
}

Shape pooled_shape(const Pooling& pool, const Shape& in) {
  return {in.n, in.c, window_output(in.h, pool.kernel_h, pool.stride_h, pool.pad.top, pool.pad.bottom),
          window_output(in.w, pool.kernel_w, pool.stride_w, pool.pad.left, pool.pad.right)};
}

Shape output_shape(const Stage& stage, int batch, int filters) {
  Shape shape = conv_shape(stage, batch, filters);
  for (const ChannelLayer& layer : stage.after) {
    if (const auto* pool = std::get_if<Pooling>(&layer)) shape = pooled_shape(*pool, shape);
  }
  return shape;
}

Shape weight_shape(const Stage& stage, int filters) {
  return {filters, stage.channels, stage.conv.kernel_h, stage.conv.kernel_w};
}

void validate(const Stage& stage) {
  const Convolution& conv = stage.conv;
  for (const int extent : {stage.channels, stage.height, stage.width, conv.filters}) {
    if (extent < 1 || extent > kLargestExtent) {
      fail("stage {}: channels, height, width and filters must lie in 1 .. {}", stage.name, kLargestExtent);
    }
  }
  validate_window(stage.name, "convolution", conv.kernel_h, conv.stride_h, conv.pad.top, conv.pad.bottom, stage.height);
  validate_window(stage.name, "convolution", conv.kernel_w, conv.stride_w, conv.pad.left, conv.pad.right, stage.width);
  Shape shape = conv_shape(stage, 1, 1);
  for (const ChannelLayer& layer : stage.after) {
    if (const auto* pool = std::get_if<Pooling>(&layer)) {
      validate_window(stage.name, "pooling", pool->kernel_h, pool->stride_h, pool->pad.top, pool->pad.bottom, shape.h);
      validate_window(stage.name, "pooling", pool->kernel_w, pool->stride_w, pool->pad.left, pool->pad.right, shape.w);
      shape = pooled_shape(*pool, shape);
    } else if (const auto* dropout = std::get_if<Dropout>(&layer)) {
      if (!(dropout->rate >= 0.0F && dropout->rate < 1.0F)) {
        fail("stage {}: dropout rate {} must lie in [0, 1)", stage.name, dropout->rate);
      }
    } else if (const auto* norm = std::get_if<BatchNorm>(&layer)) {
      const bool proper =
          norm->epsilon >= 0.0F && norm->epsilon < 1e3F && norm->momentum >= 0.0F && norm->momentum <= 1.0F;
      if (!proper || norm->name.empty()) {
        fail(
            "stage {}: batch norm '{}' with epsilon {} and momentum {}: expected a name, an epsilon of at least 0 and "
            "a "
            "momentum in 0 .. 1",
            stage.name, norm->name, norm->epsilon, norm->momentum);
      }
    } else if (const auto* activation = std::get_if<Activation>(&layer)) {
      if (!(std::abs(activation->slope) < 1e3F))
        fail("stage {}: slope {} of an activation", stage.name, activation->slope);
    }
  }
  if (stage.moments < 0 || stage.moments > kMostMoments) {
    fail("stage {}: {} tensors of the optimizer's for each parameter, {} at most", stage.name, stage.moments,
         kMostMoments);
  }
}

bool has_batch_norm(const Stage& stage) {
  return std::ranges::any_of(stage.after, [](const ChannelLayer& l) { return std::holds_alternative<BatchNorm>(l); });
}

double conv_flops(const Stage& stage, int batch, int filters) {
  return 2.0 * static_cast<double>(weight_shape(stage, 1).sample_size()) *
         static_cast<double>(conv_shape(stage, batch, filters).size());
}

}  // namespace convoy
