// Filter gradients of packed maps. vectors.cl, which is put in front of this file, has the common macros; others are
//   GRADIENT_FILTERS, GRADIENT_TAPS  weights whose gradients a work-item computes together
//   GRADIENT_BLOCKS  blocks of GRADIENT_TAPS taps that it computes one after another
//   BY_FILTERS       defined where vectors run over filters instead of columns; GRADIENT_FILTERS is then a multiple of
//                    WIDTH, and GRADIENT_TAPS a multiple of KERNEL_W

// Without BY_FILTERS, vectors run over the output's columns of one filter and are multiplied by vectors of the input.
// With BY_FILTERS, vectors run over filters at one place of the output and are multiplied by single input values (32
// bits): no load crosses a cache line, and no vector must be summed at the end, but the gradient must be transposed
// first.
#ifdef BY_FILTERS
#define VECTORS (GRADIENT_FILTERS / WIDTH)  // vectors of filters that a work-item computes
#define COLUMNS 1                           // output columns in a vector
#define NEXT GRADIENT_FILTERS               // distance between columns of the gradient
#define RUN KERNEL_W                        // taps whose input values are contiguous
#define MET(input) (VECTOR)(*(input))
// The next reads are contiguous, and processors prefetch contiguous memory by themselves.
#undef ASK_FOR
#define ASK_FOR(address)
#else
#define VECTORS GRADIENT_FILTERS
#define COLUMNS WIDTH
#define NEXT 1
#define RUN 1
#define MET(input) LOAD_STORED(0, input)
#endif
#define RUNS (GRADIENT_TAPS / RUN)

#ifdef BY_FILTERS
// Transposes the gradient from (samples, filters, places) to (blocks of GRADIENT_FILTERS filters, samples, places,
// filters of the block), with zeros in place of missing filters. Work-items: one, blocks of filters, samples.
kernel void side_by_side(global const float* restrict gradient, global float* restrict blocks, int batch, int filters,
                         int places) {
  if (get_global_id(0) > 0) return;
  const int block = get_global_id(1);
  const size_t n = get_global_id(2);
  const int first = block * GRADIENT_FILTERS;
  global const float* from = gradient + (n * filters + first) * places;
  global float* to = blocks + (block * (size_t)batch + n) * places * GRADIENT_FILTERS;
  // The loop takes one cache line of each filter at a time, so that the lines it writes stay in the first-level cache
  // until they are full.
  for (int start = 0; start < places; start += 16) {
    const int end = min(start + 16, places);
    for (int f = 0; f < GRADIENT_FILTERS; ++f) {
      for (int p = start; p < end; ++p) {
        to[p * GRADIENT_FILTERS + f] = first + f < filters ? from[(size_t)f * places + p] : 0.0f;
      }
    }
  }
}
#endif

float total(VECTOR values) {
  float part[WIDTH];
  STORE(values, 0, part);
  float sum = 0.0f;
  for (int i = 0; i < WIDTH; ++i) sum += part[i];
  return sum;
}

// Writes the sum of a vector, which belongs to one tap, to its filter or to each of its filters.
void put_sum(VECTOR sum, global float* sums, int v, int filters, int taps) {
#ifdef BY_FILTERS
  float of_filter[WIDTH];
  STORE(sum, 0, of_filter);
  for (int f = v * WIDTH; f < min((v + 1) * WIDTH, filters); ++f) sums[(size_t)f * taps] = of_filter[f - v * WIDTH];
#else
  if (v < filters) sums[(size_t)v * taps] = total(sum);
#endif
}

// Work-items: groups of GRADIENT_BLOCKS blocks of taps (channel, kernel row and kernel column combined), blocks of
// filters, slices of the batch. The input is packed. The gradient has no border, and its rows are whole vectors;
// `gradient_row`, `gradient_sample` and `gradient_filter` are the distances, in elements, between rows, samples and
// filters (with BY_FILTERS, blocks of filters). The kernel writes (slices, filters, taps), each the sum over the
// samples of a slice and the places of the output. A work-item takes `chunk` samples through one block of taps after
// another, while they are in the first-level cache; each block prefetches a filter of the next samples. The kernel is a
// single function, because PoCL keeps sums that are passed to another function out of registers.
kernel void filter_gradient(global const STORED* restrict packed, global const float* restrict gradient,
                            global float* restrict sums, int batch, int slices, int chunk, int channels, int plane,
                            int row, int phase, int filters, int height, int width, ulong gradient_sample,
                            ulong gradient_filter, int gradient_row) {
  const int taps = channels * KERNEL_H * KERNEL_W;
  const int first_tap = get_global_id(0) * (GRADIENT_BLOCKS * GRADIENT_TAPS);
  if (first_tap >= taps) return;
  const int first_filter = get_global_id(1) * GRADIENT_FILTERS;
  const int slice = get_global_id(2);
  int run_at[GRADIENT_BLOCKS * RUNS];
  size_t filter_at[VECTORS];
  VECTOR sum[GRADIENT_BLOCKS][VECTORS][GRADIENT_TAPS];
  for (int i = 0; i < GRADIENT_BLOCKS * RUNS; ++i) {
    const int tap = min(first_tap + i * RUN, taps - RUN);
    const int s = tap % KERNEL_W;
    const int r = tap / KERNEL_W % KERNEL_H;
    run_at[i] = tap / (KERNEL_W * KERNEL_H) * plane + r * row + s % STRIDE_W * phase + s / STRIDE_W;
  }
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
#ifdef BY_FILTERS
    filter_at[v] = get_global_id(1) * gradient_filter + v * WIDTH;
#else
    filter_at[v] = min(first_filter + v, filters - 1) * gradient_filter;
#endif
  }
  for (int b = 0; b < GRADIENT_BLOCKS; ++b) {
    for (int v = 0; v < VECTORS; ++v) {
      for (int t = 0; t < GRADIENT_TAPS; ++t) sum[b][v][t] = 0.0f;
    }
  }
  const int used_blocks = min(GRADIENT_BLOCKS, (taps - first_tap + GRADIENT_TAPS - 1) / GRADIENT_TAPS);
  const int last_sample = (int)((long)batch * (slice + 1) / slices);
  for (int start = (int)((long)batch * slice / slices); start < last_sample; start += chunk) {
    for (int b = 0; b < used_blocks; ++b) {
      int at[RUNS];
      VECTOR part[VECTORS][GRADIENT_TAPS];
#pragma unroll
      for (int i = 0; i < RUNS; ++i) at[i] = run_at[b * RUNS + i];
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) {
#pragma unroll
        for (int t = 0; t < GRADIENT_TAPS; ++t) part[v][t] = sum[b][v][t];
      }
      for (int n = start; n < min(start + chunk, last_sample); ++n) {
        global const STORED* input_of = packed + (size_t)n * channels * plane;
        global const float* gradient_of = gradient + n * gradient_sample;
        global const float* ahead =
            gradient + min(n + chunk, last_sample - 1) * gradient_sample + filter_at[min(b, VECTORS - 1)];
        for (int y = 0; y < height; ++y) {
          for (int x = 0; x < width; x += COLUMNS) {
            ASK_FOR(ahead + x);
            VECTOR slopes[VECTORS];
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) slopes[v] = LOAD(0, gradient_of + filter_at[v] + x * NEXT);
#pragma unroll
            for (int t = 0; t < GRADIENT_TAPS; ++t) {
              const VECTOR values = MET(input_of + at[t / RUN] + t % RUN % STRIDE_W * phase + t % RUN / STRIDE_W + x);
#pragma unroll
              for (int v = 0; v < VECTORS; ++v) part[v][t] = MULTIPLY_ADD(slopes[v], values, part[v][t]);
            }
          }
          input_of += STRIDE_H * row;
          gradient_of += gradient_row;
          ahead += gradient_row;
        }
      }
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) {
#pragma unroll
        for (int t = 0; t < GRADIENT_TAPS; ++t) sum[b][v][t] = part[v][t];
      }
    }
  }
  sums += ((size_t)slice * filters + first_filter) * taps + first_tap;
  for (int b = 0; b < used_blocks; ++b) {
    for (int v = 0; v < VECTORS; ++v) {
      for (int t = 0; t < min(GRADIENT_TAPS, taps - first_tap - b * GRADIENT_TAPS); ++t) {
        put_sum(sum[b][v][t], sums + b * GRADIENT_TAPS + t, v, filters - first_filter, taps);
      }
    }
  }
}
