// Convolutions in many groups, such as depthwise ones, and dilated ones, of plain maps. Where a filter reads few
// channels, filters have little input to share, so a work-item loads its own. The source follows maps.cl.

// The filters of the shard begin at first_filter of the stage. The input has all channels of the stage.
#define GEOMETRY                                                                                                  \
  int channels, int height, int width, int filters, int out_height, int out_width, int first_filter,              \
      int group_filters, int group_channels, int kernel_h, int kernel_w, int stride_h, int stride_w, int top,     \
      int left, int dilation_h, int dilation_w

// The number of taps within a distance, which costs no division where there is no dilation.
#define TAPS(distance, dilation) ((dilation) == 1 ? (distance) : ((distance) + (dilation) - 1) / (dilation))
// The taps from FIRST_TAP to before LAST_TAP of a window that starts at `start` lie inside the map.
#define FIRST_TAP(start, dilation) ((start) < 0 ? TAPS(-(start), dilation) : 0)
#define LAST_TAP(start, dilation, kernel_extent, extent) \
  min((kernel_extent), (start) < (extent) ? TAPS((extent) - (start), dilation) : 0)

// Computes the output's maps, with the work-items of maps.cl.
kernel void grouped_convolve(global const float* restrict input, global const float* restrict weights,
                             global const float* restrict bias, global float* restrict maps, GEOMETRY, int activation) {
  const int map = get_global_id(2);
  const int filter = map % filters;
  const int channel = (first_filter + filter) / group_filters * group_channels;
  global const float* from = input + ((size_t)(map / filters) * channels + channel) * height * width;
  global const float* weight = weights + (size_t)filter * group_channels * kernel_h * kernel_w;
  global float* to = maps + (size_t)map * out_height * out_width;
  FOR_ROWS(oy, out_height) {
    FOR_COLUMNS(ox, out_width) {
      const int y = oy * stride_h - top;
      const int x = ox * stride_w - left;
      const int first_r = FIRST_TAP(y, dilation_h);
      const int last_r = LAST_TAP(y, dilation_h, kernel_h, height);
      const int first_s = FIRST_TAP(x, dilation_w);
      const int last_s = LAST_TAP(x, dilation_w, kernel_w, width);
      float sum = bias[filter];
      for (int c = 0; c < group_channels; ++c) {
        for (int r = first_r; r < last_r; ++r) {
          for (int s = first_s; s < last_s; ++s) {
            sum += from[(c * height + y + r * dilation_h) * width + x + s * dilation_w] *
                   weight[(c * kernel_h + r) * kernel_w + s];
          }
        }
      }
      to[oy * out_width + ox] = activate(activation, sum, 0.0f);
    }
  }
}

// Computes the input's maps; channels that no filter of the shard reads are zero.
kernel void grouped_input_gradient(global const float* restrict gradient, global const float* restrict weights,
                                   global float* restrict input_gradient, GEOMETRY) {
  const int map = get_global_id(2);
  const int channel = map % channels;
  const int group = channel / group_channels;
  const int first = max(0, group * group_filters - first_filter);
  const int last = min(filters, (group + 1) * group_filters - first_filter);
  global const float* from = gradient + (size_t)(map / channels) * filters * out_height * out_width;
  global float* to = input_gradient + (size_t)map * height * width;
  FOR_ROWS(y, height) {
    FOR_COLUMNS(x, width) {
      float sum = 0.0f;
      for (int filter = first; filter < last; ++filter) {
        const int at = filter * group_channels + channel - group * group_channels;
        for (int r = 0; r < kernel_h; ++r) {
          const int below = y + top - r * dilation_h;
          const int oy = below / stride_h;
          if (below < 0 || oy * stride_h != below || oy >= out_height) continue;
          for (int s = 0; s < kernel_w; ++s) {
            const int beside = x + left - s * dilation_w;
            const int ox = beside / stride_w;
            if (beside < 0 || ox * stride_w != beside || ox >= out_width) continue;
            sum += from[(filter * out_height + oy) * out_width + ox] * weights[(at * kernel_h + r) * kernel_w + s];
          }
        }
      }
      to[y * width + x] = sum;
    }
  }
}

// Computes each sample's part of the gradient: (samples, weights). First index: the weight; second index: the sample.
kernel void grouped_filter_gradient(global const float* restrict input, global const float* restrict gradient,
                                    global float* restrict slices, GEOMETRY, int samples) {
  const int weight = get_global_id(0);
  const int sample = get_global_id(1);
  const int filter_size = group_channels * kernel_h * kernel_w;
  if (weight >= filters * filter_size || sample >= samples) return;
  const int filter = weight / filter_size;
  const int s = weight % kernel_w;
  const int r = weight / kernel_w % kernel_h;
  const int channel =
      (first_filter + filter) / group_filters * group_channels + weight / (kernel_w * kernel_h) % group_channels;
  global const float* from = input + ((size_t)sample * channels + channel) * height * width;
  global const float* slopes = gradient + ((size_t)sample * filters + filter) * out_height * out_width;
  float sum = 0.0f;
  for (int oy = 0; oy < out_height; ++oy) {
    const int y = oy * stride_h - top + r * dilation_h;
    if (y < 0 || y >= height) continue;
    for (int ox = 0; ox < out_width; ++ox) {
      const int x = ox * stride_w - left + s * dilation_w;
      if (x >= 0 && x < width) sum += from[y * width + x] * slopes[oy * out_width + ox];
    }
  }
  slices[(size_t)sample * filters * filter_size + weight] = sum;
}
