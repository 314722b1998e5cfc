// Group norm (GroupNorm in core/stage.hpp). A shard has `count` channels of its stage, from `first` on; its input has
// all `channels`. The shard's channels lie in `groups` groups of `size` channels, the first of which begins with
// channel `start`. A set is a part of the input with a mean and a variance of its own: a group of a sample, or with
// BY_POSITION one of the `places` of a group of a sample. `mean` and `inverse` (1 / standard deviation) have one value
// for each set.

// The channels of a group that a shard has, in set_slopes: their maps and their gradients. Third index: sample and
// group.
#define CHANNELS_OF_THE_GROUP                                                    \
  const size_t group = get_global_id(2);                                         \
  const size_t n = group / groups;                                               \
  const int begin = max(first, start + (int)(group % groups) * size);            \
  const int end = min(first + count, start + (int)(group % groups + 1) * size);  \
  global const float* from = input + (n * channels + begin) * places;            \
  global const float* slopes = gradient + (n * count + begin - first) * places

#ifdef BY_POSITION
#define SET(group, p) ((group)*places + (p))
#define VALUES_OF_A_SET size
#else
#define SET(group, p) (group)
#define VALUES_OF_A_SET ((float)size * places)
#endif

#ifdef BY_POSITION
// Third index: sample and group. A work-item computes all places on processors, and one place elsewhere, here and
// below.
kernel void set_moments(global const float* restrict input, global float* restrict mean, global float* restrict inverse,
                        int channels, int start, int groups, int size, float epsilon, int places) {
  const size_t group = get_global_id(2);
  global const float* from = input + (group / groups * channels + start + group % groups * size) * places;
  mean += group * places;
  inverse += group * places;
  FOR_COLUMNS(p, places) mean[p] = 0.0f;
  for (int c = 0; c < size; ++c) {
    FOR_COLUMNS(p, places) mean[p] += from[(size_t)c * places + p];
  }
  FOR_COLUMNS(p, places) {
    mean[p] /= size;
    inverse[p] = 0.0f;
  }
  for (int c = 0; c < size; ++c) {
    FOR_COLUMNS(p, places) {
      const float distance = from[(size_t)c * places + p] - mean[p];
      inverse[p] += distance * distance;
    }
  }
  FOR_COLUMNS(p, places) inverse[p] = 1.0f / sqrt(inverse[p] / size + epsilon);
}

// Sums the gradient with respect to the shard's maps, and its products with these maps. Third index: sample and group.
kernel void set_slopes(global const float* restrict input, global const float* restrict gradient,
                       global const float* restrict mean, global const float* restrict inverse,
                       global float* restrict sums, global float* restrict products, int channels, int first, int count,
                       int start, int groups, int size, int places) {
  CHANNELS_OF_THE_GROUP;
  FOR_COLUMNS(p, places) sums[group * places + p] = products[group * places + p] = 0.0f;
  for (int c = 0; c < end - begin; ++c) {
    FOR_COLUMNS(p, places) {
      const size_t set = group * places + p;
      const size_t at = (size_t)c * places + p;
      sums[set] += slopes[at];
      products[set] += slopes[at] * (from[at] - mean[set]) * inverse[set];
    }
  }
}
#else
// The sum of the squares of the distances from `mean`, and of the products of these distances with a gradient.
float sum_of_squares(global const float* map, float mean, int places) {
  float16 parts = 0.0f;
  int i = 0;
  for (; i + 16 <= places; i += 16) {
    const float16 distances = vload16(0, map + i) - mean;
    parts += distances * distances;
  }
  float sum = 0.0f;
  for (; i < places; ++i) sum += (map[i] - mean) * (map[i] - mean);
  return sum + sum_of(parts);
}
float sum_of_products(global const float* gradient, global const float* map, float mean, int places) {
  float16 parts = 0.0f;
  int i = 0;
  for (; i + 16 <= places; i += 16) parts += vload16(0, gradient + i) * (vload16(0, map + i) - mean);
  float sum = 0.0f;
  for (; i < places; ++i) sum += gradient[i] * (map[i] - mean);
  return sum + sum_of(parts);
}

// A work-item sums a group, here and below. Third index: sample and group.
kernel void set_moments(global const float* restrict input, global float* restrict mean, global float* restrict inverse,
                        int channels, int start, int groups, int size, float epsilon, int places) {
  const size_t group = get_global_id(2);
  global const float* from = input + (group / groups * channels + start + group % groups * size) * places;
  float sum = 0.0f;
  for (int c = 0; c < size; ++c) sum += sum_of_map(from + (size_t)c * places, places);
  const float middle = sum / VALUES_OF_A_SET;
  float squares = 0.0f;
  for (int c = 0; c < size; ++c) squares += sum_of_squares(from + (size_t)c * places, middle, places);
  mean[group] = middle;
  inverse[group] = 1.0f / sqrt(squares / VALUES_OF_A_SET + epsilon);
}

kernel void set_slopes(global const float* restrict input, global const float* restrict gradient,
                       global const float* restrict mean, global const float* restrict inverse,
                       global float* restrict sums, global float* restrict products, int channels, int first, int count,
                       int start, int groups, int size, int places) {
  CHANNELS_OF_THE_GROUP;
  float sum = 0.0f;
  float product = 0.0f;
  for (int c = 0; c < end - begin; ++c) {
    const size_t map = (size_t)c * places;
    sum += sum_of_map(slopes + map, places);
    product += sum_of_products(slopes + map, from + map, mean[group], places);
  }
  sums[group] = sum;
  products[group] = product * inverse[group];
}
#endif

// Third index: sample and channel of the shard.
kernel void normalise_groups(global const float* restrict input, global const float* restrict mean,
                             global const float* restrict inverse, global float* restrict maps, int channels, int first,
                             int count, int start, int groups, int size, int places) {
  const size_t map = get_global_id(2);
  const size_t n = map / count;
  const int channel = first + (int)(map % count);
  const size_t group = n * groups + (channel - start) / size;
  global const float* from = input + (n * channels + channel) * places;
  FOR_COLUMNS(p, places) maps[map * places + p] = (from[p] - mean[SET(group, p)]) * inverse[SET(group, p)];
}

// The gradient with respect to the input, as in kernels/host/group_norm.cpp: 0 in groups of which the shard has no
// channel. `sums` and `products` are those of set_slopes. Third index: sample and channel of the input.
kernel void normalise_groups_gradient(global const float* restrict input, global const float* restrict gradient,
                                      global const float* restrict mean, global const float* restrict inverse,
                                      global const float* restrict sums, global const float* restrict products,
                                      global float* restrict input_gradient, int channels, int first, int count,
                                      int start, int groups, int size, int places) {
  const size_t map = get_global_id(2);
  const size_t n = map / channels;
  const int channel = (int)(map % channels);
  const bool outside = channel < start || channel >= start + groups * size;
  const bool own = channel >= first && channel < first + count;
  const size_t group = n * groups + (outside ? 0 : (channel - start) / size);
  global const float* slopes = gradient + (n * count + (own ? channel - first : 0)) * places;
  FOR_COLUMNS(p, places) {
    const size_t set = SET(group, p);
    const float value = (input[map * places + p] - mean[set]) * inverse[set];
    const float mean_slope = (sums[set] + value * products[set]) / VALUES_OF_A_SET;
    input_gradient[map * places + p] = outside ? 0.0f : inverse[set] * ((own ? slopes[p] : 0.0f) - mean_slope);
  }
}
