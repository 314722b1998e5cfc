// Convolutions of packed maps (layers.cl). Built for one geometry and one device:
//   KERNEL_H, KERNEL_W, STRIDE_H, STRIDE_W  of the convolution
//   WIDTH     columns in one vector
//   FILTERS   filters that a work-item of `convolve` computes
//   GRADIENT_FILTERS, GRADIENT_TAPS  weights whose gradients a work-item of `filter_gradient` computes
//   FMA       defined where the device's fused multiply-add is fast
// Sums run in a fixed order: the same shard gives the same bits.

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

// Work-items: vectors of one output map (rows and columns together), blocks of filters, samples. `plane`, `row` and
// `phase` are what lies between channels, rows and phases of the packed input; weights as by pack_weights. `activation`:
// 0 none, 1 ReLU, 2 sigmoid, 3 tanh.
kernel void convolve(global const float* restrict packed, global const float* restrict weights,
                     global const float* restrict bias, global float* restrict output, int channels, int plane, int row,
                     int phase, int filters, int height, int width, int activation) {
  const int vectors = (width + WIDTH - 1) / WIDTH;
  const int vector = get_global_id(0);
  if (vector >= vectors * height) return;
  const int out_y = vector / vectors;
  const int out_x = vector % vectors * WIDTH;
  const int first = get_global_id(1) * FILTERS;
  const size_t n = get_global_id(2);
  global const float* from = packed + n * channels * plane + out_y * STRIDE_H * row + out_x;
  global const float* w = weights + (size_t)first * channels * (KERNEL_H * KERNEL_W);

  VECTOR sum[FILTERS];
#pragma unroll
  for (int f = 0; f < FILTERS; ++f) sum[f] = 0.0f;
  for (int c = 0; c < channels; ++c, from += plane) {
    for (int r = 0; r < KERNEL_H; ++r) {
#pragma unroll
      for (int s = 0; s < KERNEL_W; ++s, w += FILTERS) {
        const VECTOR values = LOAD(0, from + r * row + s % STRIDE_W * phase + s / STRIDE_W);
#pragma unroll
        for (int f = 0; f < FILTERS; ++f) sum[f] = MULTIPLY_ADD(values, (VECTOR)(w[f]), sum[f]);
      }
    }
  }

#pragma unroll
  for (int f = 0; f < FILTERS; ++f) {
    if (first + f >= filters) return;
    const VECTOR values = activate(activation, sum[f] + bias[first + f]);
    global float* to = output + ((n * filters + first + f) * height + out_y) * width + out_x;
    if (out_x + WIDTH <= width) {
      STORE(values, 0, to);
    } else {
      float part[WIDTH];
      STORE(values, 0, part);
      for (int i = 0; i < width - out_x; ++i) to[i] = part[i];
    }
  }
}

// Work-items: blocks of taps (channel, kernel row and column together), blocks of filters, slices of the batch. Both
// maps are packed; `origin` is the gradient's first element in a plane. Writes (slices, filters, taps), each the sum over
// the slice's samples and the output's places.
kernel void filter_gradient(global const float* restrict packed, global const float* restrict gradient,
                            global float* restrict sums, int batch, int slices, int channels, int plane, int row,
                            int phase, int filters, int height, int width, int gradient_plane, int gradient_row,
                            int origin) {
  const int taps = channels * KERNEL_H * KERNEL_W;
  const int first_tap = get_global_id(0) * GRADIENT_TAPS;
  if (first_tap >= taps) return;
  const int first_filter = get_global_id(1) * GRADIENT_FILTERS;
  const int slice = get_global_id(2);
  int tap_at[GRADIENT_TAPS];
  int filter_at[GRADIENT_FILTERS];
  VECTOR sum[GRADIENT_FILTERS][GRADIENT_TAPS];
#pragma unroll
  for (int t = 0; t < GRADIENT_TAPS; ++t) {
    const int tap = min(first_tap + t, taps - 1);
    const int s = tap % KERNEL_W;
    const int r = tap / KERNEL_W % KERNEL_H;
    tap_at[t] = tap / (KERNEL_W * KERNEL_H) * plane + r * row + s % STRIDE_W * phase + s / STRIDE_W;
  }
#pragma unroll
  for (int f = 0; f < GRADIENT_FILTERS; ++f) {
    filter_at[f] = min(first_filter + f, filters - 1) * gradient_plane + origin;
#pragma unroll
    for (int t = 0; t < GRADIENT_TAPS; ++t) sum[f][t] = 0.0f;
  }
  const int last_sample = (int)((long)batch * (slice + 1) / slices);
  for (int n = (int)((long)batch * slice / slices); n < last_sample; ++n) {
    global const float* input_of = packed + (size_t)n * channels * plane;
    global const float* gradient_of = gradient + (size_t)n * filters * gradient_plane;
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; x += WIDTH) {
        VECTOR slopes[GRADIENT_FILTERS];
#pragma unroll
        for (int f = 0; f < GRADIENT_FILTERS; ++f) slopes[f] = LOAD(0, gradient_of + filter_at[f] + y * gradient_row + x);
#pragma unroll
        for (int t = 0; t < GRADIENT_TAPS; ++t) {
          const VECTOR values = LOAD(0, input_of + tap_at[t] + y * STRIDE_H * row + x);
#pragma unroll
          for (int f = 0; f < GRADIENT_FILTERS; ++f) sum[f][t] = MULTIPLY_ADD(slopes[f], values, sum[f][t]);
        }
      }
    }
  }
#pragma unroll
  for (int f = 0; f < GRADIENT_FILTERS; ++f) {
#pragma unroll
    for (int t = 0; t < GRADIENT_TAPS; ++t) {
      float part[WIDTH];
      STORE(sum[f][t], 0, part);
      float total = 0.0f;
      for (int i = 0; i < WIDTH; ++i) total += part[i];
      if (first_filter + f < filters && first_tap + t < taps) {
        sums[((size_t)slice * filters + first_filter + f) * taps + first_tap + t] = total;
      }
    }
  }
}
