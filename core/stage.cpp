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

void check(const Activation& activation, const std::string& stage) {
  const auto [kind, alpha, beta] = activation;
  if (kind == Activation::Kind::clip) {
    if (!(alpha < beta))
      fail("stage {}: clip to {} .. {}: the lower limit must be below the upper", stage, alpha, beta);
  } else if (!(std::abs(alpha) < 1e3F && std::abs(beta) < 1e3F)) {
    fail("stage {}: activation with the numbers {} and {}: they must lie between -1000 and 1000", stage, alpha, beta);
  } else if (kind == Activation::Kind::elu && alpha < 0.0F) {
    fail("stage {}: elu with alpha {}: it must be at least 0", stage, alpha);
  }
}

bool is_rate(float rate) { return rate >= 0.0F && rate <= kLargestRate; }

constexpr const char* kBadRate = "stage {}: the factor {} of the learning rate must lie between 0 and 1000";
constexpr int kLargestExtent = 1 << 20;
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
  }
  if (conv.groups < 1 || stage.channels % conv.groups != 0 || conv.filters % conv.groups != 0) {
    fail("stage {}: {} channels and {} filters cannot be divided into {} equal groups", stage.name, stage.channels,
         conv.filters, conv.groups);
  }
  validate_window(stage.name, "convolution", conv.kernel_h, conv.stride_h, conv.pad.top, conv.pad.bottom, stage.height);
  validate_window(stage.name, "convolution", conv.kernel_w, conv.stride_w, conv.pad.left, conv.pad.right, stage.width);
  if (!is_rate(conv.rate)) fail(kBadRate, stage.name, conv.rate);
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
  if (stage.kind == StageKind::channels) return filters;
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

std::vector<Sources> reads_of(const std::vector<Stage>& trunk, std::size_t stage) {
  std::vector<Sources> reads{trunk[stage].from};
  if (reads[0].empty()) reads[0] = {{static_cast<int>(stage) - 1, {0, trunk[stage].channels}}};
  for (const ChannelLayer& layer : trunk[stage].after) {
    if (const Sources* from = sources_of(layer)) reads.push_back(*from);
  }
  return reads;
}

std::vector<Read> reads_for(const std::vector<Stage>& trunk, std::size_t stage, FilterRange filters) {
  std::vector<Read> reads;
  const std::vector<Sources> all = reads_of(trunk, stage);
  for (std::size_t number = 0; number < all.size(); ++number) {
    const std::vector<FilterRange> wanted =
        number > 0 ? std::vector<FilterRange>{filters} : channel_runs_for(trunk[stage], filters);
    int at = 0;
    for (const Source& source : all[number]) {
      for (const FilterRange& run : wanted) {
        const FilterRange both = common({at, source.channels.count}, run);
        if (both.count == 0) continue;
        reads.push_back({number, source.stage, {source.channels.first + both.first - at, both.count}, both.first});
      }
      at += source.channels.count;
    }
  }
  return reads;
}

std::vector<int> outputs_of(const std::vector<Stage>& trunk) {
  std::vector<bool> read(trunk.size(), false);
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    for (const Sources& sources : reads_of(trunk, s)) {
      for (const Source& source : sources) {
        if (source.stage >= 0) read[source.stage] = true;
      }
    }
  }
  std::vector<int> outputs;
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    if (!read[s]) outputs.push_back(static_cast<int>(s));
  }
  return outputs;
}

Shape maps_shape(const std::vector<Stage>& trunk, int stage, int batch, int channels) {
  if (stage >= 0) return output_shape(trunk[stage], batch, channels);
  Shape images = input_shape(trunk.front(), batch);
  images.c = channels;
  return images;
}

bool is_chain(const std::vector<Stage>& trunk) {
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    if (reads_of(trunk, s) != std::vector<Sources>{{{static_cast<int>(s) - 1, {0, trunk[s].channels}}}}) return false;
  }
  return true;
}

namespace {

/// Throws Error naming the stage unless its sources exist and together have the shape `maps` (of one sample).
void validate_sources(const std::vector<Stage>& trunk, std::size_t stage, const Sources& sources, const Shape& maps) {
  const std::string& name = trunk[stage].name;
  long channels = 0;
  for (const Source& source : sources) {
    channels += source.channels.count;
    const bool known = source.stage >= Source::kZeros && source.stage < static_cast<int>(stage);
    if (!known || source.channels.count < 1 || source.channels.first < 0) {
      fail("stage {} reads {} channels of stage {}; a stage can read only earlier stages, the images or zeros", name,
           source.channels.count, source.stage);
    }
    if (source.stage == Source::kZeros) continue;
    const Stage& from = trunk[static_cast<std::size_t>(std::max(0, source.stage))];
    const Shape there = source.stage >= 0 ? output_shape(from, 1, from.conv.filters) : input_shape(from, 1);
    if (there.h != maps.h || there.w != maps.w || source.channels.count > there.c ||
        source.channels.first > there.c - source.channels.count) {
      fail("stage {} cannot read channels {} to {} of {}, which has {} maps of {}x{}; maps of {}x{} are expected", name,
           source.channels.first, source.channels.first + source.channels.count - 1,
           source.stage >= 0 ? from.name : "images", there.c, there.h, there.w, maps.h, maps.w);
    }
  }
  if (channels != maps.c) fail("stage {} reads {} channels, but {} are expected", name, channels, maps.c);
}

}  // namespace

std::optional<Source> left_out(const std::vector<Stage>& trunk) {
  std::vector<std::vector<FilterRange>> read(trunk.size());
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    for (const Sources& sources : reads_of(trunk, s)) {
      for (const Source& source : sources) {
        if (source.stage >= 0) read[static_cast<std::size_t>(source.stage)].push_back(source.channels);
      }
    }
  }
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    if (read[s].empty()) continue;
    std::ranges::sort(read[s], {}, &FilterRange::first);
    int behind = 0;  // of the channels that are read without a gap
    for (const FilterRange& run : read[s]) {
      if (run.first <= behind) behind = std::max(behind, run.first + run.count);
    }
    if (behind < trunk[s].conv.filters) return Source{static_cast<int>(s), {behind, 1}};
  }
  return std::nullopt;
}

void validate(const std::vector<Stage>& trunk) {
  if (!trunk.empty() && reads_of(trunk, 0)[0] != Sources{{Source::kImages, {0, trunk[0].channels}}}) {
    fail("stage {} is the first, so it must read the images", trunk[0].name);
  }
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    validate(trunk[s]);
    const std::vector<Sources> reads = reads_of(trunk, s);
    validate_sources(trunk, s, reads[0], input_shape(trunk[s], 1));
    Shape maps = conv_shape(trunk[s], 1, trunk[s].conv.filters);
    std::size_t read = 0;
    for (const ChannelLayer& layer : trunk[s].after) {
      if (const auto* pool = std::get_if<Pooling>(&layer)) maps = pooled_shape(*pool, maps);
      if (sources_of(layer) != nullptr) validate_sources(trunk, s, reads[++read], taken_in(layer, maps));
    }
  }
  if (const auto channel = left_out(trunk)) {
    const Stage& stage = trunk[static_cast<std::size_t>(channel->stage)];
    fail("stage {}: nothing reads its channel {}, although others are read", stage.name, channel->channels.first);
  }
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
