// The work of one thread of each CUDA kernel (elements.hpp), for maps that pass unchanged, in another order, normalised
// over their channels, or with some of them dropped.
#pragma once

#include <cstdint>

#include "kernels/cuda/both.hpp"

namespace convoy::cuda {

/// Copies or adds a run of channels of each sample. `run` is the number of values of the run; `from_sample` and
/// `to_sample` count the values of a sample, `from_first` and `to_first` the values before the run.
struct TakeChannels {
  int run;
  int from_sample;
  int from_first;
  int to_sample;
  int to_first;
  bool added;
  const float* from;
  float* to;

  CONVOY_BOTH void operator()(int i) const {
    const int n = i / run;
    const float value = from[n * from_sample + from_first + i % run];
    float& target = to[n * to_sample + to_first + i % run];
    target = added ? target + value : value;
  }
};

/// Pixels of images to normalised floats. `table` has the value of each of the 256 levels of a pixel, by channel.
struct NormalisePixels {
  int channels;
  int places;
  const std::uint8_t* pixels;
  const float* table;
  float* maps;

  CONVOY_BOTH void operator()(int i) const { maps[i] = table[i / places % channels * 256 + pixels[i]]; }
};

/// Some of the channels of a stage whose kind is channels or shuffle. Its filter f is the input channel f % groups *
/// (channels / groups) + f / groups (shuffled_from() in core/stage.hpp); with one group the order stays.
struct PassedChannels {
  int channels;  ///< of the input
  int groups;
  int first;  ///< the first filter of the shard
  int count;
  int places;

  CONVOY_BOTH int channel_of(int filter) const { return filter % groups * (channels / groups) + filter / groups; }
  CONVOY_BOTH int filter_of(int channel) const {
    return channel % (channels / groups) * groups + channel / (channels / groups);
  }
};

/// Input maps to the shard's maps.
struct PassChannels {
  PassedChannels of;
  const float* input;
  float* maps;

  CONVOY_BOTH void operator()(int i) const {
    const int map = i / of.places;
    const int channel = of.channel_of(of.first + map % of.count);
    maps[i] = input[(map / of.count * of.channels + channel) * of.places + i % of.places];
  }
};

/// The gradient with respect to the input. The gradient is 0 where the shard lacks the channel's filter.
struct PassChannelsGradient {
  PassedChannels of;
  const float* gradient;
  float* input_gradient;

  CONVOY_BOTH void operator()(int i) const {
    const int map = i / of.places;
    const int filter = of.filter_of(map % of.channels) - of.first;
    const bool here = filter >= 0 && filter < of.count;
    input_gradient[i] = here ? gradient[(map / of.channels * of.count + filter) * of.places + i % of.places] : 0.0F;
  }
};

/// Normalisation of a shard's channels over neighbouring ones (ResponseNorm in core/stage.hpp).
struct NormWindow {
  int channels;  ///< of the input
  int first;     ///< the first channel of the shard
  int count;
  int places;
  int size;  ///< channels of a window
  float alpha;
  float beta;
  float k;

  CONVOY_BOTH int before() const { return (size - 1) / 2; }
  /// Returns k + alpha / size * (sum of squares in a channel's window) at one place of a sample.
  CONVOY_BOTH float base(const float* place, int channel) const {
    const int end = channel - before() + size;
    float sum = k;
    for (int c = channel < before() ? 0 : channel - before(); c < end && c < channels; ++c) {
      const float x = place[c * places];
      sum += alpha / static_cast<float>(size) * x * x;
    }
    return sum;
  }
};

/// Input maps to the shard's normalised maps.
struct NormaliseResponse {
  NormWindow of;
  const float* input;
  float* maps;

  CONVOY_BOTH void operator()(int i) const {
    const int map = i / of.places;
    const int channel = of.first + map % of.count;
    const float* place = input + map / of.count * of.channels * of.places + i % of.places;
    maps[i] = place[channel * of.places] * powf(of.base(place, channel), -of.beta);
  }
};

/// The gradient with respect to an input channel: through its own normalised value, and through the bases of all
/// channels of the shard whose windows contain it.
struct NormaliseResponseGradient {
  NormWindow of;
  const float* input;
  const float* gradient;
  float* input_gradient;

  CONVOY_BOTH void operator()(int i) const {
    const int map = i / of.places;
    const int channel = map % of.channels;
    const int n = map / of.channels;
    const float* place = input + n * of.channels * of.places + i % of.places;
    const float factor = -2.0F * of.alpha * of.beta / static_cast<float>(of.size) * place[channel * of.places];
    const int last = channel + of.before();
    float sum = 0.0F;
    for (int c = last - of.size + 1; c <= last; ++c) {
      if (c < of.first || c >= of.first + of.count) continue;
      const float base = of.base(place, c);
      const float slope = gradient[(n * of.count + c - of.first) * of.places + i % of.places] * powf(base, -of.beta);
      if (c == channel) sum += slope;
      sum += factor * slope * place[c * of.places] / base;
    }
    input_gradient[i] = sum;
  }
};

/// The first 32 of the 128 random bits at a counter (Philox 4x32-10, philox() in core/random.hpp).
CONVOY_BOTH inline std::uint32_t random_bits(std::uint32_t counter0, std::uint32_t counter1, std::uint32_t counter2,
                                             std::uint32_t counter3, std::uint64_t seed) {
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter0;
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter2;
    counter0 = static_cast<std::uint32_t>(product1 >> 32) ^ counter1 ^ key0;
    counter1 = static_cast<std::uint32_t>(product1);
    counter2 = static_cast<std::uint32_t>(product0 >> 32) ^ counter3 ^ key1;
    counter3 = static_cast<std::uint32_t>(product0);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter0;
}

/// Multiplies each element by its factor of dropout (dropout_scale() in core/random.hpp), or by that of the first
/// element of its map if `spatial` is set. `first` is the number of the first sample in the shard; Origin in
/// kernels/device.hpp explains the other numbers.
struct Drop {
  std::uint64_t seed;
  std::uint32_t stream;
  float rate;
  bool spatial;
  int channels;
  int places;
  int first;
  int first_filter;
  int first_sample;
  int micro_batch;
  int whole_micro_batch;
  const float* from;
  float* to;

  CONVOY_BOTH void operator()(int i) const {
    const int map = i / places;
    const int sample = first + map / channels;
    const int number = sample / micro_batch * whole_micro_batch + first_sample + sample % micro_batch;
    const int element = spatial ? 0 : i % places;
    const std::uint32_t bits =
        random_bits(static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(first_filter + map % channels),
                    static_cast<std::uint32_t>(number), stream, seed);
    const float unit = static_cast<float>(bits >> 8) * (1.0F / 16777216.0F);
    to[i] = from[i] * (unit < rate ? 0.0F : 1.0F / (1.0F - rate));
  }
};

}  // namespace convoy::cuda
