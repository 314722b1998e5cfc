// The work of one thread of each CUDA kernel (elements.hpp), for group norm.
#pragma once

#include "kernels/cuda/both.hpp"

namespace convoy::cuda {

/// The groups of which a shard has channels (GroupNorm in core/stage.hpp). A set is what has a mean and a variance: a
/// group of one sample, or one position of it. Sets are numbered (sample, group, position).
struct NormGroups {
  int channels;  ///< of the input
  int first;     ///< the first channel of the shard
  int count;     ///< channels of the shard
  int places;
  int group_channels;
  int first_group;  ///< of the groups of which the shard has channels
  int groups;       ///< number of these
  bool by_position;
  float epsilon;

  /// Returns the number of values of a set.
  CONVOY_BOTH int set_size() const { return by_position ? group_channels : group_channels * places; }
  /// Returns the set of a channel, which belongs to one of the groups, at a place of a sample.
  CONVOY_BOTH int set_of(int n, int channel, int place) const {
    const int group = n * groups + channel / group_channels - first_group;
    return by_position ? group * places + place : group;
  }
  /// Returns the index in the input of element p of the (channel, place) elements of group `group` of all samples'
  /// groups.
  CONVOY_BOTH int element(int group, int p) const {
    const int channel = (first_group + group % groups) * group_channels;
    return (group / groups * channels + channel) * places + p;
  }
  /// Returns the index in the shard's maps of the element `element` of the input; -1 if the shard lacks its channel.
  CONVOY_BOTH int own(int element) const {
    const int filter = element / places % channels - first;
    if (filter < 0 || filter >= count) return -1;
    return (element / places / channels * count + filter) * places + element % places;
  }
};

/// The moments of sets: the sums of x and of (x - mean)^2.
struct SetMoments {
  const float* sums;
  const float* squares;

  CONVOY_BOTH float mean(int set, const NormGroups& of) const { return sums[set] / static_cast<float>(of.set_size()); }
  CONVOY_BOTH float inverse(int set, const NormGroups& of) const {
    return 1.0F / sqrtf(squares[set] / static_cast<float>(of.set_size()) + of.epsilon);
  }
};

// What Gpu::sum adds up for each group, as a channel of a layout (1, samples * groups, elements of a group).

/// The values of groups.
struct GroupValues {
  static constexpr int kSums = 1;
  NormGroups of;
  const float* input;

  CONVOY_BOTH void operator()(int i, int group, float* sums) const {
    sums[0] += input[of.element(group, i - group * of.group_channels * of.places)];
  }
};

/// (x - mean)^2.
struct GroupSquares {
  static constexpr int kSums = 1;
  NormGroups of;
  const float* input;
  const float* sums_of_input;

  CONVOY_BOTH void operator()(int i, int group, float* sums) const {
    const float x = input[of.element(group, i - group * of.group_channels * of.places)];
    const float distance = x - sums_of_input[group] / static_cast<float>(of.set_size());
    sums[0] += distance * distance;
  }
};

/// The gradient with respect to the shard's maps, and its product with these maps.
struct GroupSlopes {
  static constexpr int kSums = 2;
  NormGroups of;
  const float* input;
  const float* gradient;
  SetMoments moments;

  CONVOY_BOTH void operator()(int i, int group, float* sums) const {
    const int element = of.element(group, i - group * of.group_channels * of.places);
    const int own = of.own(element);
    if (own < 0) return;
    sums[0] += gradient[own];
    sums[1] += gradient[own] * (input[element] - moments.mean(group, of)) * moments.inverse(group, of);
  }
};

/// The moments of the sets of positions.
struct PositionMoments {
  NormGroups of;
  const float* input;
  float* sums;
  float* squares;

  CONVOY_BOTH void operator()(int set) const {
    const float* first = input + of.element(set / of.places, set % of.places);
    float sum = 0.0F;
    for (int c = 0; c < of.group_channels; ++c) sum += first[c * of.places];
    const float mean = sum / static_cast<float>(of.set_size());
    float square = 0.0F;
    for (int c = 0; c < of.group_channels; ++c) {
      const float distance = first[c * of.places] - mean;
      square += distance * distance;
    }
    sums[set] = sum;
    squares[set] = square;
  }
};

/// GroupSlopes for the sets of positions.
struct PositionSlopes {
  NormGroups of;
  const float* input;
  const float* gradient;
  SetMoments moments;
  float* sums;
  float* products;

  CONVOY_BOTH void operator()(int set) const {
    const int first = of.element(set / of.places, set % of.places);
    const float mean = moments.mean(set, of);
    const float inverse = moments.inverse(set, of);
    float sum = 0.0F;
    float product = 0.0F;
    for (int c = 0; c < of.group_channels; ++c) {
      const int element = first + c * of.places;
      const int own = of.own(element);
      if (own < 0) continue;
      sum += gradient[own];
      product += gradient[own] * (input[element] - mean) * inverse;
    }
    sums[set] = sum;
    products[set] = product;
  }
};

/// Input maps to the shard's normalised maps.
struct NormaliseGroups {
  NormGroups of;
  const float* input;
  SetMoments moments;
  float* maps;

  CONVOY_BOTH void operator()(int i) const {
    const int place = i % of.places;
    const int channel = of.first + i / of.places % of.count;
    const int n = i / of.places / of.count;
    const int set = of.set_of(n, channel, place);
    const float x = input[(n * of.channels + channel) * of.places + place];
    maps[i] = (x - moments.mean(set, of)) * moments.inverse(set, of);
  }
};

/// The gradient with respect to the input (GroupNormLoops in kernels/host/group_norm.hpp). It is 0 for channels of
/// other groups. `sums` and `products` are those of GroupSlopes.
struct NormaliseGroupsGradient {
  NormGroups of;
  const float* input;
  const float* gradient;
  SetMoments moments;
  const float* sums;
  const float* products;
  float* input_gradient;

  CONVOY_BOTH void operator()(int i) const {
    const int channel = i / of.places % of.channels;
    const int group = channel / of.group_channels - of.first_group;
    if (group < 0 || group >= of.groups) {
      input_gradient[i] = 0.0F;
      return;
    }
    const int set = of.set_of(i / of.places / of.channels, channel, i % of.places);
    const float inverse = moments.inverse(set, of);
    const float y = (input[i] - moments.mean(set, of)) * inverse;
    const int own = of.own(i);
    const float slope = own < 0 ? 0.0F : gradient[own];
    input_gradient[i] = inverse * (slope - (sums[set] + y * products[set]) / static_cast<float>(of.set_size()));
  }
};

}  // namespace convoy::cuda
