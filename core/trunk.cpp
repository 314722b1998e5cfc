// The stages of a trunk together: what each of them reads.

#include <algorithm>

#include "core/stage.hpp"

namespace convoy {

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
    const Stage& from = trunk[std::max(0, source.stage)];
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
        if (source.stage >= 0) read[source.stage].push_back(source.channels);
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
    const std::vector<Shape> taken = added_shapes(trunk[s], 1, trunk[s].conv.filters);
    for (std::size_t i = 0; i < taken.size(); ++i) validate_sources(trunk, s, reads[i + 1], taken[i]);
  }
  if (const auto channel = left_out(trunk)) {
    const Stage& stage = trunk[channel->stage];
    fail("stage {}: nothing reads its channel {}, although others are read", stage.name, channel->channels.first);
  }
}

}  // namespace convoy
