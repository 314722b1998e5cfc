// Convolutions of packed maps (layers.cl). Built for one geometry and one device:
//   KERNEL_H, KERNEL_W, STRIDE_H, STRIDE_W  of the convolution
//   WIDTH     columns in one vector
//   FILTERS   filters that a work-item of `convolve` computes
//   GRADIENT_FILTERS, GRADIENT_TAPS  weights whose gradients a work-item of `filter_gradient` computes together, and
//   GRADIENT_BLOCKS  times as many taps one after another
//   BY_FILTERS  defined where its vectors are of filters, not of columns: whole ones, and whole rows of the kernel
//   FMA       defined where the device has fused multiply-add
//   HALF      defined where the packed input and the weights are in 16 bits; sums, and gradients, are in 32
//   IMAGES    defined where `convolve` reads both as images: WIDTH is 4, and rows, planes and FILTERS are multiples of 4
//   POOL      defined where `convolve` pools: maxima of 2 x 2 places, without padding; an odd last row or column falls off
// Sums run in a fixed order: the same shard gives the same bits.

#ifdef HALF
#define STORED half
#define LOAD_STORED JOIN(vload_half, WIDTH)
#define WEIGHT(at, weights) vload_half(at, weights)
#else
#define STORED float
#define LOAD_STORED LOAD
#define WEIGHT(at, weights) (weights)[at]
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VECTOR JOIN(float, WIDTH)
#define LOAD JOIN(vload, WIDTH)
#define STORE JOIN(vstore, WIDTH)
#ifdef FMA
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

#ifdef IMAGES
// Texels of four values, by the cache that some GPUs (Adreno) have for images alone.
#define MAPS read_only image1d_buffer_t
#define WEIGHTS read_only image1d_buffer_t
#define PHASES (STRIDE_W < KERNEL_W ? STRIDE_W : KERNEL_W)
#define TEXELS (1 + ((KERNEL_W - 1) / STRIDE_W + 3) / 4)

// What the taps of one row of the kernel meet, phase by phase.
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
    case 1: return fmax(value, 0.0f);
    case 2: return 1.0f / (1.0f + exp(-value));
    case 3: return tanh(value);
    default: return value;
  }
}

float total(VECTOR values) {
  float part[WIDTH];
  STORE(values, 0, part);
  float sum = 0.0f;
  for (int i = 0; i < WIDTH; ++i) sum += part[i];
  return sum;
}

// One vector of an output map, as much of it as lies in the map.
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

// The maxima of two rows' vectors and their places, as max_pool (layers.cl) finds them: the first of equals; behind a ReLU
// a maximum of zero has no place.
void pool(VECTOR upper, VECTOR lower, int after_relu, global float* map, global int* places, int x, int width) {
  POOLED best = upper.even;
  PLACES place = 0;
  place = select(place, (PLACES)1, upper.odd > best);
  best = upper.odd > best ? upper.odd : best;
  place = select(place, (PLACES)2, lower.even > best);
  best = lower.even > best ? lower.even : best;
  place = select(place, (PLACES)3, lower.odd > best);
  best = lower.odd > best ? lower.odd : best;
  if (after_relu) place = select((PLACES)-1, place, best > 0.0f);
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

// Work-items: pairs of vectors of an output map, blocks of filters, samples; a pair, so that each weight serves twice: two
// neighbours (a map's rows one after another), or, to be pooled, one above the other. `items` work-items share a map's
// pairs. `plane`, `row` and `phase` are what lies between channels, rows and phases of the packed input; weights as by
// pack_weights. `activation`: 0 none, 1 ReLU, 2 sigmoid, 3 tanh. With POOL the output and `places` are pooled maps.
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

#ifdef BY_FILTERS
#define FILTER_VECTORS (GRADIENT_FILTERS / WIDTH)
#define TAP_ROWS (GRADIENT_TAPS / KERNEL_W)

// The gradient (samples, filters, places) to (blocks of GRADIENT_FILTERS filters, samples, places, filters of the block);
// zeros where filters run out. Work-items: one, blocks of filters, samples.
kernel void side_by_side(global const float* restrict gradient, global float* restrict blocks, int batch, int filters,
                         int places) {
  if (get_global_id(0) > 0) return;
  const int block = get_global_id(1);
  const size_t n = get_global_id(2);
  const int first = block * GRADIENT_FILTERS;
  global const float* from = gradient + (n * filters + first) * places;
  global float* to = blocks + (block * (size_t)batch + n) * places * GRADIENT_FILTERS;
  // A line of each filter's at a time: what is written stays in the first cache until it is whole.
  for (int start = 0; start < places; start += 16) {
    const int end = min(start + 16, places);
    for (int f = 0; f < GRADIENT_FILTERS; ++f) {
      for (int p = start; p < end; ++p) {
        to[p * GRADIENT_FILTERS + f] = first + f < filters ? from[(size_t)f * places + p] : 0.0f;
      }
    }
  }
}

// As the kernel below, but for a gradient by side_by_side: a vector of it meets single values of the input, so that no load
// crosses a cache line, and nothing is left to add up within vectors. The packed input is in 32 bits.
kernel void filter_gradient(global const float* restrict packed, global const float* restrict gradient,
                            global float* restrict sums, int batch, int slices, int chunk, int channels, int plane,
                            int row, int phase, int filters, int height, int width) {
  const int rows = channels * KERNEL_H;  // of the kernel, in all channels
  const int first_row = get_global_id(0) * (GRADIENT_BLOCKS * TAP_ROWS);
  if (first_row >= rows) return;
  const int block = get_global_id(1);
  const int slice = get_global_id(2);
  int row_at[GRADIENT_BLOCKS * TAP_ROWS];
  for (int i = 0; i < GRADIENT_BLOCKS * TAP_ROWS; ++i) {
    const int at = min(first_row + i, rows - 1);
    row_at[i] = at / KERNEL_H * plane + at % KERNEL_H * row;
  }
  VECTOR sum[GRADIENT_BLOCKS][FILTER_VECTORS][GRADIENT_TAPS];
  for (int b = 0; b < GRADIENT_BLOCKS; ++b) {
    for (int v = 0; v < FILTER_VECTORS; ++v) {
      for (int t = 0; t < GRADIENT_TAPS; ++t) sum[b][v][t] = 0.0f;
    }
  }
  const int used_blocks = min(GRADIENT_BLOCKS, (rows - first_row + TAP_ROWS - 1) / TAP_ROWS);
  const int last_sample = (int)((long)batch * (slice + 1) / slices);
  for (int start = (int)((long)batch * slice / slices); start < last_sample; start += chunk) {
    for (int b = 0; b < used_blocks; ++b) {
      int at[TAP_ROWS];
      VECTOR part[FILTER_VECTORS][GRADIENT_TAPS];
#pragma unroll
      for (int i = 0; i < TAP_ROWS; ++i) at[i] = row_at[b * TAP_ROWS + i];
#pragma unroll
      for (int v = 0; v < FILTER_VECTORS; ++v) {
#pragma unroll
        for (int t = 0; t < GRADIENT_TAPS; ++t) part[v][t] = sum[b][v][t];
      }
      for (int n = start; n < min(start + chunk, last_sample); ++n) {
        global const float* input_of = packed + (size_t)n * channels * plane;
        global const float* gradient_of = gradient + (block * (size_t)batch + n) * height * width * GRADIENT_FILTERS;
        for (int y = 0; y < height; ++y, input_of += STRIDE_H * row) {
          for (int x = 0; x < width; ++x, gradient_of += GRADIENT_FILTERS) {
            VECTOR slopes[FILTER_VECTORS];
#pragma unroll
            for (int v = 0; v < FILTER_VECTORS; ++v) slopes[v] = LOAD(v, gradient_of);
#pragma unroll
            for (int i = 0; i < TAP_ROWS; ++i) {
#pragma unroll
              for (int s = 0; s < KERNEL_W; ++s) {
                const VECTOR value = input_of[at[i] + s % STRIDE_W * phase + s / STRIDE_W + x];
#pragma unroll
                for (int v = 0; v < FILTER_VECTORS; ++v) {
                  part[v][i * KERNEL_W + s] = MULTIPLY_ADD(slopes[v], value, part[v][i * KERNEL_W + s]);
                }
              }
            }
          }
        }
      }
#pragma unroll
      for (int v = 0; v < FILTER_VECTORS; ++v) {
#pragma unroll
        for (int t = 0; t < GRADIENT_TAPS; ++t) sum[b][v][t] = part[v][t];
      }
    }
  }
  const int taps = rows * KERNEL_W;
  const int first_tap = first_row * KERNEL_W;
  const int used_taps = min(GRADIENT_BLOCKS * GRADIENT_TAPS, taps - first_tap);
  for (int t = 0; t < used_taps; ++t) {
    for (int v = 0; v < FILTER_VECTORS; ++v) {
      float of_filter[WIDTH];
      STORE(sum[t / GRADIENT_TAPS][v][t % GRADIENT_TAPS], 0, of_filter);
      const int first = block * GRADIENT_FILTERS + v * WIDTH;
      for (int f = 0; f < min(WIDTH, filters - first); ++f) {
        sums[((size_t)slice * filters + first + f) * taps + first_tap + t] = of_filter[f];
      }
    }
  }
}
#else
// Work-items: groups of GRADIENT_BLOCKS blocks of taps (channel, kernel row and column together), blocks of filters,
// slices of the batch. The input is packed; the gradient has no border, its rows are whole vectors, and from row to row,
// sample to sample and filter to filter there lie `gradient_row`, `gradient_sample` and `gradient_filter`. Writes (slices,
// filters, taps), each the sum over the slice's samples and the output's places. A work-item goes through `chunk` samples
// with one block of taps after another, while they are in the first cache.
kernel void filter_gradient(global const STORED* restrict packed, global const float* restrict gradient,
                            global float* restrict sums, int batch, int slices, int chunk, int channels, int plane,
                            int row, int phase, int filters, int height, int width, ulong gradient_sample,
                            ulong gradient_filter, int gradient_row) {
  const int taps = channels * KERNEL_H * KERNEL_W;
  const int first_tap = get_global_id(0) * (GRADIENT_BLOCKS * GRADIENT_TAPS);
  if (first_tap >= taps) return;
  const int first_filter = get_global_id(1) * GRADIENT_FILTERS;
  const int slice = get_global_id(2);
  int tap_at[GRADIENT_BLOCKS * GRADIENT_TAPS];
  size_t filter_at[GRADIENT_FILTERS];
  VECTOR sum[GRADIENT_BLOCKS][GRADIENT_FILTERS][GRADIENT_TAPS];
  for (int t = 0; t < GRADIENT_BLOCKS * GRADIENT_TAPS; ++t) {
    const int tap = min(first_tap + t, taps - 1);
    const int s = tap % KERNEL_W;
    const int r = tap / KERNEL_W % KERNEL_H;
    tap_at[t] = tap / (KERNEL_W * KERNEL_H) * plane + r * row + s % STRIDE_W * phase + s / STRIDE_W;
  }
#pragma unroll
  for (int f = 0; f < GRADIENT_FILTERS; ++f) filter_at[f] = min(first_filter + f, filters - 1) * gradient_filter;
  for (int b = 0; b < GRADIENT_BLOCKS; ++b) {
    for (int f = 0; f < GRADIENT_FILTERS; ++f) {
      for (int t = 0; t < GRADIENT_TAPS; ++t) sum[b][f][t] = 0.0f;
    }
  }
  const int used_blocks = min(GRADIENT_BLOCKS, (taps - first_tap + GRADIENT_TAPS - 1) / GRADIENT_TAPS);
  const int last_sample = (int)((long)batch * (slice + 1) / slices);
  for (int start = (int)((long)batch * slice / slices); start < last_sample; start += chunk) {
    for (int b = 0; b < used_blocks; ++b) {
      int at[GRADIENT_TAPS];
      VECTOR part[GRADIENT_FILTERS][GRADIENT_TAPS];
#pragma unroll
      for (int t = 0; t < GRADIENT_TAPS; ++t) {
        at[t] = tap_at[b * GRADIENT_TAPS + t];
#pragma unroll
        for (int f = 0; f < GRADIENT_FILTERS; ++f) part[f][t] = sum[b][f][t];
      }
      for (int n = start; n < min(start + chunk, last_sample); ++n) {
        global const STORED* input_of = packed + (size_t)n * channels * plane;
        global const float* gradient_of = gradient + n * gradient_sample;
        for (int y = 0; y < height; ++y, input_of += STRIDE_H * row, gradient_of += gradient_row) {
          for (int x = 0; x < width; x += WIDTH) {
            VECTOR slopes[GRADIENT_FILTERS];
#pragma unroll
            for (int f = 0; f < GRADIENT_FILTERS; ++f) slopes[f] = LOAD(0, gradient_of + filter_at[f] + x);
#pragma unroll
            for (int t = 0; t < GRADIENT_TAPS; ++t) {
              const VECTOR values = LOAD_STORED(0, input_of + at[t] + x);
#pragma unroll
              for (int f = 0; f < GRADIENT_FILTERS; ++f) part[f][t] = MULTIPLY_ADD(slopes[f], values, part[f][t]);
            }
          }
        }
      }
#pragma unroll
      for (int f = 0; f < GRADIENT_FILTERS; ++f) {
#pragma unroll
        for (int t = 0; t < GRADIENT_TAPS; ++t) sum[b][f][t] = part[f][t];
      }
    }
  }
  for (int b = 0; b < used_blocks; ++b) {
    for (int f = 0; f < min(GRADIENT_FILTERS, filters - first_filter); ++f) {
      for (int t = 0; t < min(GRADIENT_TAPS, taps - first_tap - b * GRADIENT_TAPS); ++t) {
        const size_t to = ((size_t)slice * filters + first_filter + f) * taps + first_tap + b * GRADIENT_TAPS + t;
        sums[to] = total(sum[b][f][t]);
      }
    }
  }
}
#endif
