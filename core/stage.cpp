#include "core/stage.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace convoy {
namespace {

constexpr int kLargestExtent = 1 << 20;

/// Throws Error unless a window of `kernel` elements, dilation included, fits.
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

void check(const Activation& activation, const std::string& stage) {
  const auto [kind, alpha, beta] = activation;
  if (kind == Activation::Kind::clip) {
    if (!(alpha < beta))
      fail("stage {}: clip to {} .. {}: the lower limit must be below the upper", stage, alpha, beta);
  } else if (!(std::abs(alpha) < 1e3F && std::abs(beta) < 1e3F)) {
    fail("stage {}: activation with the numbers {} and {}: they must lie between -1000 and 1000", stage, alpha, beta);
  } else if (kind == Activation::Kind::elu && alpha < 0.0F) {
    fail("stage {}: elu with alpha {}: it must be at least 0", stage, alpha);
  } else if (kind == Activation::Kind::celu && !(alpha >= 1e-3F)) {
    fail("stage {}: celu with alpha {}: it must be at least 0.001", stage, alpha);
  }
}

/// Throws Error unless kernel and dilation are such that their product is an extent.
template <class Window>
void check_dilation(const Window& window, const std::string& stage) {
  for (const auto& [kernel, dilation] :
       {std::pair{window.kernel_h, window.dilation_h}, {window.kernel_w, window.dilation_w}}) {
    const bool proper = kernel >= 1 && kernel <= kLargestExtent && dilation >= 1 && dilation <= kLargestExtent / kernel;
    if (!proper) {
      fail("stage {}: a kernel of {} with the dilation {}: both must be at least 1, and their product at most {}",
           stage, kernel, dilation, kLargestExtent);
    }
  }
}

void check(const Pooling& pool, const Shape& maps, const std::string& stage) {
  check_dilation(pool, stage);
  if (pool.dilated() && pool.kind != PoolKind::max) {
    fail("stage {}: an average pooling with the dilation {}x{}; only max pooling may have one", stage, pool.dilation_h,
         pool.dilation_w);
  }
  validate_window(stage, "pooling", pool.reach_h(), pool.stride_h, pool.pad.top, pool.pad.bottom, maps.h);
  validate_window(stage, "pooling", pool.reach_w(), pool.stride_w, pool.pad.left, pool.pad.right, maps.w);
  if (has_empty_window(pool, maps.h, maps.w)) {
    fail("stage {}: a window of the dilated pooling has no element of its maps of {}x{}", stage, maps.h, maps.w);
  }
}

void check(const GroupNorm& norm, const Stage& stage) {
  if (norm.groups < 1 || stage.channels % norm.groups != 0) {
    fail("stage {}: {} channels cannot be normalised in {} equal groups", stage.name, stage.channels, norm.groups);
  }
  if (!(norm.epsilon >= 0.0F && norm.epsilon < 1e3F)) {
    fail("stage {}: group norm with epsilon {}: it must lie in [0, 1000)", stage.name, norm.epsilon);
  }
}

/// Throws Error unless the result has such an extent, and its places are numbers.
void check(Resizing::Mode mode, const Resizing::Axis& axis, int extent, const std::string& stage) {
  const auto [result, step, start] = axis;
  if (result < 1 || result > kLargestExtent) {
    fail("stage {}: maps cannot be resized to {} rows or columns; expected 1 to {}", stage, result, kLargestExtent);
  }
  if (!(step >= 0.0 && step <= kLargestExtent && std::abs(start) <= kLargestExtent)) {
    fail("stage {}: maps cannot be resized by steps of {} from {} on; expected 0 to {}, and a start of at most this",
         stage, step, start, kLargestExtent);
  }
  const bool whole = step >= 1.0 && start >= 0.0 && std::floor(step) == step && std::floor(start) == start;
  if (mode == Resizing::Mode::spread && !(whole && start + (extent - 1) * step < result)) {
    fail("stage {}: {} rows or columns cannot be spread over {} by steps of {} from {} on", stage, extent, result, step,
         start);
  }
}

void check(const Resizing& by, const Stage& stage) {
  if (by.mode > Resizing::Mode::spread) fail("stage {}: maps are resized in an unknown way", stage.name);
  check(by.mode, by.rows, stage.height, stage.name);
  check(by.mode, by.columns, stage.width, stage.name);
}

bool is_rate(float rate) { return rate >= 0.0F && rate <= kLargestRate; }

constexpr const char* kBadRate = "stage {}: the factor {} of the learning rate must lie between 0 and 1000";
constexpr int kMostMoments = 2;

/// The intersection and the hull of FilterRanges or SampleRanges.
template <class Range>
Range common_run(Range a, Range b) {
  const int first = std::max(a.first, b.first);
  return {first, std::max(0, std::min(a.first + a.count, b.first + b.count) - first)};
}

template <class Range>
Range hull_of(Range a, Range b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const int first = std::min(a.first, b.first);
  return {first, std::max(a.first + a.count, b.first + b.count) - first};
}

}  // namespace

int window_output(int extent, int kernel, int stride, int pad_before, int pad_after) {
  const int room = extent + pad_before + pad_after - kernel;
  return room < 0 ? 0 : room / stride + 1;
}

FilterRange common(FilterRange a, FilterRange b) { return common_run(a, b); }
SampleRange common(SampleRange a, SampleRange b) { return common_run(a, b); }
Box common(const Box& a, const Box& b) { return {common(a.channels, b.channels), common(a.samples, b.samples)}; }

FilterRange hull(FilterRange a, FilterRange b) { return hull_of(a, b); }
SampleRange hull(SampleRange a, SampleRange b) { return hull_of(a, b); }
Box hull(const Box& a, const Box& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {hull(a.channels, b.channels), hull(a.samples, b.samples)};
}

Shape input_shape(const Stage& stage, int batch) { return {batch, stage.channels, stage.height, stage.width}; }

Shape conv_shape(const Stage& stage, int batch, int filters) {
  if (stage.kind == StageKind::resize) {
    return {batch, filters, stage.resizing.rows.extent, stage.resizing.columns.extent};
  }
  const Convolution& conv = stage.conv;
  return {batch, filters, window_output(stage.height, conv.reach_h(), conv.stride_h, conv.pad.top, conv.pad.bottom),
          window_output(stage.width, conv.reach_w(), conv.stride_w, conv.pad.left, conv.pad.right)};
}

namespace {

/// Returns the element at a place, which is rounded down. Without a start the place is rounded to float first: PyTorch
/// takes the same elements then. With one, places that rounding has put just below a whole number count as this number.
int nearest_at(int at, const Resizing::Axis& axis, int extent) {
  constexpr double kRounding = 1e-9;
  double place = static_cast<float>(static_cast<double>(at) * static_cast<float>(axis.step));
  if (axis.start != 0.0) place = axis.start + at * axis.step + kRounding * (1.0 + at * axis.step);
  return static_cast<int>(std::clamp(std::floor(place), 0.0, extent - 1.0));
}

Between linear_at(int at, const Resizing::Axis& axis, int extent) {
  const double place = std::clamp(axis.start + at * axis.step, 0.0, extent - 1.0);
  const int first = static_cast<int>(place);
  return {first, std::min(first + 1, extent - 1), place - first};
}

}  // namespace

std::vector<Between> elements_of(Resizing::Mode mode, const Resizing::Axis& axis, int extent) {
  std::vector<Between> all(static_cast<std::size_t>(axis.extent), {-1, -1, 0.0});
  if (mode == Resizing::Mode::spread) {
    for (int i = 0; i < extent; ++i) all[axis.start + i * axis.step] = {i, i, 0.0};
    return all;
  }
  for (int at = 0; at < axis.extent; ++at) {
    const int nearest = nearest_at(at, axis, extent);
    all[at] = mode == Resizing::Mode::linear ? linear_at(at, axis, extent) : Between{nearest, nearest, 0.0};
  }
  return all;
}

namespace {

/// Whether a window that begins in the padding before `extent` elements has no element of them. The first of its
/// elements behind the padding decides; windows that begin later begin with an element.
bool begins_without_elements(int stride, int dilation, int pad_before, int windows, int extent) {
  for (int i = 0; i < windows && i * stride < pad_before; ++i) {
    const int before = pad_before - i * stride;
    if ((dilation - before % dilation) % dilation >= extent) return true;
  }
  return false;
}

}  // namespace

bool has_empty_window(const Pooling& pool, int height, int width) {
  const Shape out = pooled_shape(pool, {1, 1, height, width});
  return begins_without_elements(pool.stride_h, pool.dilation_h, pool.pad.top, out.h, height) ||
         begins_without_elements(pool.stride_w, pool.dilation_w, pool.pad.left, out.w, width);
}

Shape pooled_shape(const Pooling& pool, const Shape& in) {
  return {in.n, in.c, window_output(in.h, pool.reach_h(), pool.stride_h, pool.pad.top, pool.pad.bottom),
          window_output(in.w, pool.reach_w(), pool.stride_w, pool.pad.left, pool.pad.right)};
}

Shape output_shape(const Stage& stage, int batch, int filters) {
  Shape shape = conv_shape(stage, batch, filters);
  for (const ChannelLayer& layer : stage.after) {
    if (const auto* pool = std::get_if<Pooling>(&layer)) shape = pooled_shape(*pool, shape);
  }
  return shape;
}

const Sources* sources_of(const ChannelLayer& layer) {
  if (const auto* add = std::get_if<Add>(&layer)) return &add->from;
  if (const auto* product = std::get_if<Multiply>(&layer)) return &product->from;
  return nullptr;
}

namespace {

/// Returns the shape of the maps that a layer takes in beside maps of shape `maps`.
Shape taken_in(const ChannelLayer& layer, const Shape& maps) {
  const auto* product = std::get_if<Multiply>(&layer);
  return product != nullptr && product->by_points ? Shape{maps.n, maps.c, 1, 1} : maps;
}

}  // namespace

std::vector<Shape> added_shapes(const Stage& stage, int batch, int filters) {
  Shape maps = conv_shape(stage, batch, filters);
  std::vector<Shape> added;
  for (const ChannelLayer& layer : stage.after) {
    if (const auto* pool = std::get_if<Pooling>(&layer)) maps = pooled_shape(*pool, maps);
    if (sources_of(layer) != nullptr) added.push_back(taken_in(layer, maps));
  }
  return added;
}

Shape weight_shape(const Stage& stage, int filters) {
  if (stage.kind != StageKind::convolution) return {filters, 0, 0, 0};
  return {filters, stage.channels / stage.conv.groups, stage.conv.kernel_h, stage.conv.kernel_w};
}

void validate(const Stage& stage) {
  const Convolution& conv = stage.conv;
  for (const int extent : {stage.channels, stage.height, stage.width, conv.filters}) {
    if (extent < 1 || extent > kLargestExtent) {
      fail("stage {}: channels, height, width and filters must lie in 1 .. {}", stage.name, kLargestExtent);
    }
  }
  if (stage.kind != StageKind::convolution) {
    const Convolution none{.filters = stage.channels, .bias = false};
    if (conv != none)
      fail("stage {}: a stage of this kind has no convolution, so it can have no filters, kernel or bias of its own",
           stage.name);
    const ResponseNorm& norm = stage.norm;
    if (norm.size < 1 || norm.size > kLargestExtent || !(norm.alpha >= 0.0F && norm.beta >= 0.0F && norm.k >= 0.0F)) {
      fail(
          "stage {}: response norm of size {} with alpha {}, beta {} and k {}: the size must be at least 1, the others "
          "at least 0",
          stage.name, norm.size, norm.alpha, norm.beta, norm.k);
    }
    if (stage.shuffle < 1 || stage.channels % stage.shuffle != 0) {
      fail("stage {}: {} channels cannot be shuffled as {} equal groups", stage.name, stage.channels, stage.shuffle);
    }
    if (stage.kind == StageKind::group_norm) check(stage.group_norm, stage);
    if (stage.kind == StageKind::resize) check(stage.resizing, stage);
  }
  if (conv.groups < 1 || stage.channels % conv.groups != 0 || conv.filters % conv.groups != 0) {
    fail("stage {}: {} channels and {} filters cannot be divided into {} equal groups", stage.name, stage.channels,
         conv.filters, conv.groups);
  }
  check_dilation(conv, stage.name);
  validate_window(stage.name, "convolution", conv.reach_h(), conv.stride_h, conv.pad.top, conv.pad.bottom,
                  stage.height);
  validate_window(stage.name, "convolution", conv.reach_w(), conv.stride_w, conv.pad.left, conv.pad.right, stage.width);
  if (!is_rate(conv.rate)) fail(kBadRate, stage.name, conv.rate);
  Shape shape = conv_shape(stage, 1, 1);
  for (const ChannelLayer& layer : stage.after) {
    if (const auto* pool = std::get_if<Pooling>(&layer)) {
      check(*pool, shape, stage.name);
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
            "stage {}: batch norm '{}' with epsilon {} and momentum {}: it needs a name, an epsilon in [0, 1000) and a "
            "momentum in [0, 1]",
            stage.name, norm->name, norm->epsilon, norm->momentum);
      }
      if (!is_rate(norm->rate)) fail(kBadRate, stage.name, norm->rate);
    } else if (const auto* activation = std::get_if<Activation>(&layer)) {
      check(*activation, stage.name);
    }
  }
  if (stage.moments < 0 || stage.moments > kMostMoments) {
    fail("stage {}: the optimizer keeps {} tensors for each parameter; expected 0 to {}", stage.name, stage.moments,
         kMostMoments);
  }
}

FilterRange channels_for(const Stage& stage, FilterRange filters) {
  if (stage.kind == StageKind::channels || stage.kind == StageKind::resize) return filters;
  if (stage.kind == StageKind::group_norm) {
    const int group = stage.channels / stage.group_norm.groups;
    const int first = filters.first / group * group;
    return {first, (filters.first + filters.count + group - 1) / group * group - first};
  }
  if (stage.kind == StageKind::convolution) {
    const int group_filters = stage.conv.filters / stage.conv.groups;
    const int group_channels = stage.channels / stage.conv.groups;
    const int first = filters.first / group_filters;
    const int behind = (filters.first + filters.count + group_filters - 1) / group_filters;
    return {first * group_channels, (behind - first) * group_channels};
  }
  if (stage.kind == StageKind::shuffle) {
    FilterRange all;
    for (const FilterRange& run : channel_runs_for(stage, filters)) all = hull(all, run);
    return all;
  }
  const int before = (stage.norm.size - 1) / 2;
  return common(FilterRange{filters.first - before, filters.count + stage.norm.size - 1}, {0, stage.channels});
}

std::vector<FilterRange> channel_runs_for(const Stage& stage, FilterRange filters) {
  if (stage.kind != StageKind::shuffle) return {channels_for(stage, filters)};
  const int group = stage.channels / stage.shuffle;
  std::vector<FilterRange> runs;
  for (int g = 0; g < stage.shuffle; ++g) {
    // Channel i of group g becomes filter i * groups + g. These are the smallest i of all filters from one on.
    const auto least = [&](int filter) { return (filter - g + stage.shuffle - 1) / stage.shuffle; };
    const int first = least(filters.first);
    const FilterRange run{g * group + first, least(filters.first + filters.count) - first};
    if (run.count <= 0) continue;
    if (!runs.empty() && runs.back().first + runs.back().count == run.first) {
      runs.back().count += run.count;
    } else {
      runs.push_back(run);
    }
  }
  return runs;
}

int shuffled_from(const Stage& stage, int filter) {
  return filter % stage.shuffle * (stage.channels / stage.shuffle) + filter / stage.shuffle;
}

Stage stage_without_weights(const std::string& name, StageKind kind, int channels, int height, int width) {
  return {.name = name,
          .channels = channels,
          .height = height,
          .width = width,
          .conv = {.filters = channels, .bias = false},
          .after = {},
          .kind = kind};
}

bool has_batch_norm(const Stage& stage) {
  return std::ranges::any_of(stage.after, [](const ChannelLayer& layer) { return std::get_if<BatchNorm>(&layer); });
}

int batch_norms(const Stage& stage) {
  return static_cast<int>(std::ranges::count_if(stage.after, [](const ChannelLayer& layer) {
    const auto* norm = std::get_if<BatchNorm>(&layer);
    return norm != nullptr && !norm->frozen();
  }));
}

double conv_flops(const Stage& stage, int batch, int filters) {
  return 2.0 * static_cast<double>(weight_shape(stage, 1).sample_size()) *
         static_cast<double>(conv_shape(stage, batch, filters).size());
}

}  // namespace convoy
