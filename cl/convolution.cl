// Convolutions of packed maps. vectors.cl, which is put in front of this file, has the common macros; others are
//   FILTERS          filters that a work-item computes
//   IMAGES           defined where input and weights are read as images: WIDTH is 4, and rows, planes and FILTERS are
//                    multiples of 4
//   POOL             defined where the kernel also computes the maxima of 2 x 2 places, without padding; an odd last
//                    row or column is dropped

#ifdef IMAGES
// A texel has four values. Some GPUs (Adreno) have a cache that only images use.
#define MAPS read_only image1d_buffer_t
#define WEIGHTS read_only image1d_buffer_t
#define PHASES (STRIDE_W < KERNEL_W ? STRIDE_W : KERNEL_W)
#define TEXELS (1 + ((KERNEL_W - 1) / STRIDE_W + 3) / 4)

// Reads the input values under the taps of one kernel row, phase by phase.
void read_row(MAPS packed, int at, int phase, float values[PHASES * TEXELS * 4]) {
#pragma unroll
  for (int p = 0; p < PHASES; ++p) {
#pragma unroll
    for (int t = 0; t < TEXELS; ++t) vstore4(read_imagef(packed, (at + p * phase) / 4 + t), p * TEXELS + t, values);
  }
}
#else
#define MAPS global const STORED* restrict
#define WEIGHTS global const STORED* restrict
#endif

VECTOR activate(int activation, VECTOR value) {
  switch (activation) {
    case 1: return value < 0.0f ? 0.0f : value;  // fmax would turn NaN into 0
    case 2: return 1.0f / (1.0f + exp(-value));
    case 3: return tanh(value);
    default: return value;
  }
}

// Stores one vector of an output map, clipped at the map's right border.
void put(VECTOR values, global float* map, int out_y, int out_x, int width) {
  global float* to = map + out_y * width + out_x;
  if (out_x + WIDTH <= width) {
    STORE(values, 0, to);
    return;
  }
  float part[WIDTH];
  STORE(values, 0, part);
  for (int i = 0; i < width - out_x; ++i) to[i] = part[i];
}

#ifdef POOL
#if WIDTH == 16
#define POOLED float8
#define PLACES int8
#define STORE_POOLED vstore8
#elif WIDTH == 8
#define POOLED float4
#define PLACES int4
#define STORE_POOLED vstore4
#else
#define POOLED float2
#define PLACES int2
#define STORE_POOLED vstore2
#endif

// Stores the maxima of two rows' vectors and their places by the rules of max_pool (layers.cl): among equal elements
// the first wins, a NaN wins over every number, and after a ReLU a maximum of zero has no place.
void pool(VECTOR upper, VECTOR lower, int after_relu, global float* map, global int* places, int x, int width) {
  POOLED best = upper.even;
  PLACES place = 0;
  PLACES wins = (upper.odd > best) | isnan(upper.odd);
  place = select(place, (PLACES)1, wins);
  best = wins ? upper.odd : best;
  wins = (lower.even > best) | isnan(lower.even);
  place = select(place, (PLACES)2, wins);
  best = wins ? lower.even : best;
  wins = (lower.odd > best) | isnan(lower.odd);
  place = select(place, (PLACES)3, wins);
  best = wins ? lower.odd : best;
  if (after_relu) place = select(place, (PLACES)-1, best <= 0.0f);
  if (x + WIDTH / 2 <= width) {
    STORE_POOLED(best, 0, map + x);
    STORE_POOLED(place, 0, places + x);
    return;
  }
  float best_of[WIDTH / 2];
  int place_of[WIDTH / 2];
  STORE_POOLED(best, 0, best_of);
  STORE_POOLED(place, 0, place_of);
  for (int i = 0; i < width - x; ++i) {
    map[x + i] = best_of[i];
    places[x + i] = place_of[i];
  }
}
#endif

// Work-items: pairs of vectors of an output map, blocks of filters, samples. Each weight serves both vectors of a pair,
// which are neighbours (rows continue each other) or, for pooling, one above the other. `items` work-items share the
// pairs of a map. `plane`, `row` and `phase` are the distances, in elements, between channels, rows and phases of the
// packed input. Weights are laid out by pack_weights. `activation` is 0 none, 1 ReLU, 2 sigmoid, 3 tanh. With POOL the
// output and `places` are pooled maps.
kernel void convolve(MAPS packed, WEIGHTS weights, global const float* restrict bias, global float* restrict output,
#ifdef POOL
                     global int* restrict places,
#endif
                     int items, int channels, int plane, int row, int phase, int filters, int height, int width,
                     int activation) {
  const int in_row = (width + WIDTH - 1) / WIDTH;
#ifdef POOL
  const int pairs = in_row * (height / 2);
#else
  const int vectors = in_row * height;
  const int pairs = (vectors + 1) / 2;
#endif
  const int first = get_global_id(1) * FILTERS;
  const size_t n = get_global_id(2);
  if (get_global_id(0) >= items) return;
  for (int pair = get_global_id(0); pair < pairs; pair += items) {
#ifdef POOL
    const int left_y = pair / in_row * 2;
    const int left_x = pair % in_row * WIDTH;
    const int right_y = left_y + 1;
    const int right_x = left_x;
#else
    const int left = pair * 2;
    const int right = min(left + 1, vectors - 1);
    const int left_y = left / in_row;
    const int left_x = left % in_row * WIDTH;
    const int right_y = right / in_row;
    const int right_x = right % in_row * WIDTH;
#endif
    const int apart = (right_y - left_y) * STRIDE_H * row + right_x - left_x;
    size_t from = n * channels * plane + left_y * STRIDE_H * row + left_x;
    size_t w = (size_t)first * channels * (KERNEL_H * KERNEL_W);

    VECTOR left_sum[FILTERS];
    VECTOR right_sum[FILTERS];
#pragma unroll
    for (int f = 0; f < FILTERS; ++f) left_sum[f] = right_sum[f] = 0.0f;
    for (int c = 0; c < channels; ++c, from += plane) {
      for (int r = 0; r < KERNEL_H; ++r) {
#ifdef IMAGES
        float left_row[PHASES * TEXELS * 4];
        float right_row[PHASES * TEXELS * 4];
        read_row(packed, from + r * row, phase, left_row);
        read_row(packed, from + apart + r * row, phase, right_row);
#endif
#pragma unroll
        for (int s = 0; s < KERNEL_W; ++s, w += FILTERS) {
#ifdef IMAGES
          const int at = s % STRIDE_W * (TEXELS * 4) + s / STRIDE_W;
          const VECTOR left_values = vload4(0, left_row + at);
          const VECTOR right_values = vload4(0, right_row + at);
          float weight_of[FILTERS];
#pragma unroll
          for (int f = 0; f < FILTERS / 4; ++f) vstore4(read_imagef(weights, (int)(w / 4) + f), f, weight_of);
#else
          const int at = r * row + s % STRIDE_W * phase + s / STRIDE_W;
          const VECTOR left_values = LOAD_STORED(0, packed + from + at);
          const VECTOR right_values = LOAD_STORED(0, packed + from + apart + at);
#endif
#pragma unroll
          for (int f = 0; f < FILTERS; ++f) {
#ifdef IMAGES
            const VECTOR weight = weight_of[f];
#else
            const VECTOR weight = WEIGHT(f, weights + w);
#endif
            left_sum[f] = MULTIPLY_ADD(left_values, weight, left_sum[f]);
            right_sum[f] = MULTIPLY_ADD(right_values, weight, right_sum[f]);
          }
        }
      }
    }

#pragma unroll
    for (int f = 0; f < FILTERS; ++f) {
      if (first + f >= filters) break;
      const VECTOR left_value = activate(activation, left_sum[f] + bias[first + f]);
      const VECTOR right_value = activate(activation, right_sum[f] + bias[first + f]);
#ifdef POOL
      const size_t map = ((n * filters + first + f) * (height / 2) + left_y / 2) * (width / 2);
      pool(left_value, right_value, activation == 1, output + map, places + map, left_x / 2, width / 2);
#else
      global float* map = output + (n * filters + first + f) * height * width;
      put(left_value, map, left_y, left_x, width);
      if (right > left) put(right_value, map, right_y, right_x, width);
#endif
    }
  }
}
