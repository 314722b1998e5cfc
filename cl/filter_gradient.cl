// Filter gradients of packed maps; the macros are those of convolution.cl, which is put in front.

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
// with one block of taps after another, while they are in the first cache; each block asks for a filter of the next ones.
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
        global const float* ahead =
            gradient + min(n + chunk, last_sample - 1) * gradient_sample + filter_at[min(b, GRADIENT_FILTERS - 1)];
        for (int y = 0; y < height; ++y) {
          for (int x = 0; x < width; x += WIDTH) {
            ASK_FOR(ahead + x);
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
          input_of += STRIDE_H * row;
          gradient_of += gradient_row;
          ahead += gradient_row;
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
