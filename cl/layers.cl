// Packing, layers and sums. Maps are plain NCHW floats unless they are called packed.

// Packed values are in 16 bits where HALF is defined.
#ifdef HALF
#define STORED half
#define PUT(value, at, to) vstore_half(value, at, to)
#else
#define STORED float
#define PUT(value, at, to) (to)[at] = (value)
#endif

// ---- packing --------------------------------------------------------------------------------------------------------
// Packed maps have a border and space after each row that stay zero, so that kernels read whole vectors without
// checking where the map ends. A row is divided into as many phases as the convolution's stride: columns 0, s, 2s, ...,
// then 1, s + 1, ..., so that columns at a distance of one stride are contiguous.

// Copies row y, column x of a map to row top + y * step_y, column left + x * step_x of the packed map. `sample` and
// `channel` are the distances, in elements, between samples and channels of the packed maps.
kernel void pack(global const float* restrict maps, global STORED* restrict packed, int channels, int height, int width,
                 ulong sample, ulong channel, int phases, int pitch, int top, int left, int step_y, int step_x) {
  const size_t map = get_global_id(2);
  global STORED* plane = packed + map / channels * sample + map % channels * channel;
  FOR_ROWS(y, height) {
    global const float* from = maps + (map * height + y) * width;
    global STORED* to = plane + (top + y * step_y) * phases * pitch;
    if (phases == 1 && step_x == 1) {
      FOR_COLUMNS(x, width) PUT(from[x], left + x, to);
    } else {
      FOR_COLUMNS(x, width) {
        const int column = left + x * step_x;
        if (column / phases < pitch) PUT(from[x], column % phases * pitch + column / phases, to);
      }
    }
  }
}

// Packs weights (filters, channels, taps) as (blocks of `block` filters, channels, taps, filters of the block), with
// zeros in place of missing filters. With `swapped`, filters and channels change places and taps run backward, for the
// input gradient.
kernel void pack_weights(global const float* restrict weights, global STORED* restrict packed, int filters,
                         int channels, int taps, int block, int swapped) {
  const int outer = swapped ? channels : filters;
  const int inner = swapped ? filters : channels;
  const int b = get_global_id(2);
  FOR_ROWS(i, inner) {
    FOR_COLUMNS(t, taps) {
      for (int f = 0; f < block; ++f) {
        const int o = b * block + f;
        const int from = swapped ? (i * channels + o) * taps + taps - 1 - t : (o * channels + i) * taps + t;
        PUT(o < outer ? weights[from] : 0.0f, ((size_t)(b * inner + i) * taps + t) * block + f, packed);
      }
    }
  }
}

// ---- layers after a convolution -------------------------------------------------------------------------------------

kernel void apply_activation(global const float* restrict input, global float* restrict output, int height, int width,
                             int activation, float slope) {
  const size_t map = get_global_id(2);
  FOR_ROWS(y, height) {
    const size_t row = (map * height + y) * width;
    FOR_COLUMNS(x, width) output[row + x] = activate(activation, input[row + x], slope);
  }
}

// Computes the gradient with respect to the input from the gradient with respect to the output. The derivatives come
// from the output; a ReLU's is 1 where the output is NaN.
kernel void activation_gradient(global const float* restrict output, global const float* restrict gradient,
                                global float* restrict input_gradient, int height, int width, int activation,
                                float negative_slope) {
  const size_t map = get_global_id(2);
  FOR_ROWS(y, height) {
    const size_t row = (map * height + y) * width;
    FOR_COLUMNS(x, width) {
      const float value = output[row + x];
      const float slope = activation == 2   ? value * (1.0f - value)
                          : activation == 3 ? 1.0f - value * value
                                            : (value <= 0.0f ? negative_slope : 1.0f);
      input_gradient[row + x] = gradient[row + x] * slope;
    }
  }
}

kernel void add(global const float* restrict input, global const float* restrict added, global float* restrict output,
                int height, int width) {
  const size_t map = get_global_id(2);
  FOR_ROWS(y, height) {
    const size_t row = (map * height + y) * width;
    FOR_COLUMNS(x, width) output[row + x] = input[row + x] + added[row + x];
  }
}

// Replaces `count` channels of `to`, from to_first on, by channels of `from`, or adds these where `added` is set.
kernel void take_channels(global const float* restrict from, global float* restrict to, int count, int from_channels,
                          int from_first, int to_channels, int to_first, int added, int height, int width) {
  const size_t map = get_global_id(2);
  const size_t sample = map / count;
  const size_t channel = map % count;
  const size_t size = (size_t)height * width;
  from += (sample * from_channels + from_first + channel) * size;
  to += (sample * to_channels + to_first + channel) * size;
  FOR_ROWS(y, height) {
    const size_t row = (size_t)y * width;
    if (added) {
      FOR_COLUMNS(x, width) to[row + x] += from[row + x];
    } else {
      FOR_COLUMNS(x, width) to[row + x] = from[row + x];
    }
  }
}

kernel void multiply(global const float* restrict input, global const float* restrict factors,
                     global float* restrict output, int height, int width) {
  const size_t map = get_global_id(2);
  FOR_ROWS(y, height) {
    const size_t row = (map * height + y) * width;
    FOR_COLUMNS(x, width) output[row + x] = input[row + x] * factors[row + x];
  }
}

// Multiplies each map by one number.
kernel void multiply_by_points(global const float* restrict input, global const float* restrict factors,
                               global float* restrict output, int height, int width) {
  const size_t map = get_global_id(2);
  const float factor = factors[map];
  FOR_ROWS(y, height) {
    const size_t row = (map * height + y) * width;
    FOR_COLUMNS(x, width) output[row + x] = input[row + x] * factor;
  }
}

// Sums the products of two maps of `size` elements; the gradient with respect to the number that multiplies a map.
kernel void sum_products(global const float* restrict gradient, global const float* restrict input,
                         global float* restrict sums, int size) {
  const size_t map = get_global_id(2);
  global const float* one = gradient + map * size;
  global const float* other = input + map * size;
  float16 parts = 0.0f;
  int i = 0;
  for (; i + 16 <= size; i += 16) parts += vload16(0, one + i) * vload16(0, other + i);
  float sum = 0.0f;
  for (; i < size; ++i) sum += one[i] * other[i];
  sums[map] = sum + sum_of(parts);
}

// A window of kernel_h x kernel_w slides over a map of height x width and gives a map of out_height x out_width.

// The elements of a window are dilation_h rows and dilation_w columns apart. Padding never wins; among equal elements
// the first does; a NaN wins over every number. `places` holds the index of the maximum in its map. After a ReLU a
// maximum of zero has no place (-1), because the ReLU's slope is zero there.
kernel void max_pool(global const float* restrict input, global float* restrict output, global int* restrict places,
                     int height, int width, int out_height, int out_width, int kernel_h, int kernel_w, int stride_h,
                     int stride_w, int top, int left, int after_relu, int dilation_h, int dilation_w) {
  const size_t map = get_global_id(2);
  global const float* from = input + map * height * width;
  FOR_ROWS(out_y, out_height) {
    FOR_COLUMNS(out_x, out_width) {
      float best = 0.0f;
      int place = -1;
      for (int r = 0; r < kernel_h; ++r) {
        for (int s = 0; s < kernel_w; ++s) {
          const int y = out_y * stride_h - top + r * dilation_h;
          const int x = out_x * stride_w - left + s * dilation_w;
          if (y < 0 || y >= height || x < 0 || x >= width) continue;
          const float value = from[y * width + x];
          if (place < 0 || value > best || isnan(value)) {
            best = value;
            place = y * width + x;
          }
        }
      }
      const size_t to = (map * out_height + out_y) * out_width + out_x;
      output[to] = best;
      places[to] = after_relu && best <= 0.0f ? -1 : place;
    }
  }
}

// The first and last rows or columns of windows that reach over an element.
int first_over(int element, int stride, int reach, int before) {
  return max(0, (element + before - reach + stride) / stride);
}
int last_over(int element, int stride, int before, int windows) {
  return min(windows - 1, (element + before) / stride);
}

// Each element sums the gradients of the windows whose maximum it was, in the windows' order. The windows reach over
// reach_h x reach_w elements.
kernel void max_pool_gradient(global const float* restrict gradient, global const int* restrict places,
                              global float* restrict input_gradient, int height, int width, int out_height,
                              int out_width, int reach_h, int reach_w, int stride_h, int stride_w, int top, int left) {
  const size_t map = get_global_id(2);
  const size_t pooled = map * out_height * out_width;
  FOR_ROWS(y, height) {
    const int first_y = first_over(y, stride_h, reach_h, top);
    const int last_y = last_over(y, stride_h, top, out_height);
    FOR_COLUMNS(x, width) {
      const int first_x = first_over(x, stride_w, reach_w, left);
      const int last_x = last_over(x, stride_w, left, out_width);
      float sum = 0.0f;
      for (int out_y = first_y; out_y <= last_y; ++out_y) {
        for (int out_x = first_x; out_x <= last_x; ++out_x) {
          const size_t at = pooled + out_y * out_width + out_x;
          sum += places[at] == y * width + x ? gradient[at] : 0.0f;
        }
      }
      input_gradient[(map * height + y) * width + x] = sum;
    }
  }
}

// The gradient of the pooling of 2 x 2 elements that `convolve` includes; it writes the index of the maximum in its
// window. Only an odd last row or column is in no window.
kernel void fused_pool_gradient(global const float* restrict gradient, global const int* restrict places,
                                global float* restrict input_gradient, int height, int width, int out_height,
                                int out_width) {
  const size_t map = get_global_id(2);
  FOR_ROWS(y, height) {
    FOR_COLUMNS(x, width) {
      const size_t at = (map * out_height + min(y / 2, out_height - 1)) * out_width + min(x / 2, out_width - 1);
      const bool inside = y / 2 < out_height && x / 2 < out_width;
      const int place = y % 2 * 2 + x % 2;
      input_gradient[(map * height + y) * width + x] = inside && places[at] == place ? gradient[at] : 0.0f;
    }
  }
}

// Returns how many rows or columns of the map lie under a window.
int covered(int position, int stride, int kernel_size, int before, int extent) {
  const int start = position * stride - before;
  return min(start + kernel_size, extent) - max(start, 0);
}

// Divides by `divisor`, or where it is 0 by the number of elements inside the map.
kernel void average_pool(global const float* restrict input, global float* restrict output, int height, int width,
                         int out_height, int out_width, int kernel_h, int kernel_w, int stride_h, int stride_w, int top,
                         int left, int divisor) {
  const size_t map = get_global_id(2);
  global const float* from = input + map * height * width;
  FOR_ROWS(out_y, out_height) {
    const int rows = covered(out_y, stride_h, kernel_h, top, height);
    FOR_COLUMNS(out_x, out_width) {
      const int columns = covered(out_x, stride_w, kernel_w, left, width);
      float sum = 0.0f;
      for (int r = 0; r < rows; ++r) {
        for (int s = 0; s < columns; ++s) {
          sum += from[(max(out_y * stride_h - top, 0) + r) * width + max(out_x * stride_w - left, 0) + s];
        }
      }
      output[(map * out_height + out_y) * out_width + out_x] =
          sum / (divisor > 0 ? divisor : rows * columns);
    }
  }
}

kernel void average_pool_gradient(global const float* restrict gradient, global float* restrict input_gradient,
                                  int height, int width, int out_height, int out_width, int kernel_h, int kernel_w,
                                  int stride_h, int stride_w, int top, int left, int divisor) {
  const size_t map = get_global_id(2);
  const size_t pooled = map * out_height * out_width;
  FOR_ROWS(y, height) {
    const int first_y = first_over(y, stride_h, kernel_h, top);
    const int last_y = last_over(y, stride_h, top, out_height);
    FOR_COLUMNS(x, width) {
      const int first_x = first_over(x, stride_w, kernel_w, left);
      const int last_x = last_over(x, stride_w, left, out_width);
      float sum = 0.0f;
      for (int out_y = first_y; out_y <= last_y; ++out_y) {
        const int rows = covered(out_y, stride_h, kernel_h, top, height);
        for (int out_x = first_x; out_x <= last_x; ++out_x) {
          const int columns = covered(out_x, stride_w, kernel_w, left, width);
          sum += gradient[pooled + out_y * out_width + out_x] / (divisor > 0 ? divisor : rows * columns);
        }
      }
      input_gradient[(map * height + y) * width + x] = sum;
    }
  }
}

// ---- gradients and parameters ---------------------------------------------------------------------------------------

// Sums each map of `size` elements: (samples, filters), the slices of the bias gradient.
kernel void sum_maps(global const float* restrict maps, global float* restrict sums, int count, int size) {
  const int map = get_global_id(0);
  if (map >= count) return;
  sums[map] = sum_of_map(maps + (size_t)map * size, size);
}

// Sums (slices, count) over the slices, in ascending order. A work-item computes `chunk` values, here and below.
kernel void sum_slices(global const float* restrict slices, global float* restrict sums, int number, int count,
                       int chunk) {
  const int first = get_global_id(0) * chunk;
  const int last = min(first + chunk, count);
  for (int i = first; i < last; ++i) {
    float sum = 0.0f;
    for (int s = 0; s < number; ++s) sum += slices[(size_t)s * count + i];
    sums[i] = sum;
  }
}
