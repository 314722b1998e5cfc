// Convolutions of packed maps (layers.cl). Built for one geometry and one device:
//   KERNEL_H, KERNEL_W, STRIDE_H, STRIDE_W  of the convolution
//   WIDTH     columns in one vector
//   FILTERS   filters that a work-item of `convolve` computes
//   GRADIENT_FILTERS, GRADIENT_TAPS  weights whose gradients a work-item of `filter_gradient` computes together, and
//   GRADIENT_BLOCKS  times as many taps one after another
//   FMA       defined where the device has fused multiply-add
//   HALF      defined where the packed input and the weights are in 16 bits; sums, and gradients, are in 32
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

// Work-items: pairs of vectors of an output map (its rows one after another), blocks of filters, samples; a pair, so that
// each weight serves twice. `items` work-items share a map's pairs. `plane`, `row` and `phase` are what lies between
// channels, rows and phases of the packed input; weights as by pack_weights. `activation`: 0 none, 1 ReLU, 2 sigmoid,
// 3 tanh.
kernel void convolve(global const STORED* restrict packed, global const STORED* restrict weights,
                     global const float* restrict bias, global float* restrict output, int items, int channels,
                     int plane, int row, int phase, int filters, int height, int width, int activation) {
  const int in_row = (width + WIDTH - 1) / WIDTH;
  const int vectors = in_row * height;
  const int first = get_global_id(1) * FILTERS;
  const size_t n = get_global_id(2);
  if (get_global_id(0) >= items) return;
  for (int left = get_global_id(0) * 2; left < vectors; left += items * 2) {
    const int right = min(left + 1, vectors - 1);
    const int left_y = left / in_row;
    const int left_x = left % in_row * WIDTH;
    const int right_y = right / in_row;
    const int right_x = right % in_row * WIDTH;
    const int apart = (right_y - left_y) * STRIDE_H * row + right_x - left_x;
    global const STORED* from = packed + n * channels * plane + left_y * STRIDE_H * row + left_x;
    global const STORED* w = weights + (size_t)first * channels * (KERNEL_H * KERNEL_W);

    VECTOR left_sum[FILTERS];
    VECTOR right_sum[FILTERS];
#pragma unroll
    for (int f = 0; f < FILTERS; ++f) left_sum[f] = right_sum[f] = 0.0f;
    for (int c = 0; c < channels; ++c, from += plane) {
      for (int r = 0; r < KERNEL_H; ++r) {
#pragma unroll
        for (int s = 0; s < KERNEL_W; ++s, w += FILTERS) {
          const int at = r * row + s % STRIDE_W * phase + s / STRIDE_W;
          const VECTOR left_values = LOAD_STORED(0, from + at);
          const VECTOR right_values = LOAD_STORED(0, from + apart + at);
#pragma unroll
          for (int f = 0; f < FILTERS; ++f) {
            const VECTOR weight = WEIGHT(f, w);
            left_sum[f] = MULTIPLY_ADD(left_values, weight, left_sum[f]);
            right_sum[f] = MULTIPLY_ADD(right_values, weight, right_sum[f]);
          }
        }
      }
    }

#pragma unroll
    for (int f = 0; f < FILTERS; ++f) {
      if (first + f >= filters) break;
      global float* map = output + (n * filters + first + f) * height * width;
      put(activate(activation, left_sum[f] + bias[first + f]), map, left_y, left_x, width);
      if (right > left) put(activate(activation, right_sum[f] + bias[first + f]), map, right_y, right_x, width);
    }
  }
}

// Work-items: groups of GRADIENT_BLOCKS blocks of taps (channel, kernel row and column together), blocks of filters,
// slices of the batch. Both maps are packed; the gradient has no border and lies by filter, all samples of one together, so
// that it is read as one stream. Writes (slices, filters, taps), each the sum over the slice's samples and the output's
// places. A work-item goes through `chunk` samples with one block of taps after another, while they are in the first
// cache.
kernel void filter_gradient(global const STORED* restrict packed, global const float* restrict gradient,
                            global float* restrict sums, int batch, int slices, int chunk, int channels, int plane,
                            int row, int phase, int filters, int height, int width, int gradient_plane,
                            int gradient_row) {
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
  for (int f = 0; f < GRADIENT_FILTERS; ++f) filter_at[f] = (size_t)min(first_filter + f, filters - 1) * batch * gradient_plane;
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
        global const float* gradient_of = gradient + (size_t)n * gradient_plane;
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

// The sums of plain maps of `size` elements, as (samples, filters): slices of the bias gradient.
kernel void sum_maps(global const float* restrict maps, global float* restrict sums, int count, int size) {
  const int map = get_global_id(0);
  if (map >= count) return;
  global const float* from = maps + (size_t)map * size;
  VECTOR sum = 0.0f;
  int i = 0;
  for (; i + WIDTH <= size; i += WIDTH) sum += LOAD(0, from + i);
  float rest = 0.0f;
  for (; i < size; ++i) rest += from[i];
  sums[map] = total(sum) + rest;
}
