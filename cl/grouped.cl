// Convolutions in many groups, such as depthwise ones, of plain maps. Where a filter reads few channels, filters have
// little input to share, so a work-item loads its own. The source follows maps.cl.

// The filters of the shard begin at first_filter of the stage. The input has all channels of the stage.
#define GEOMETRY                                                                                                    \
  int channels, int height, int width, int filters, int out_height, int out_width, int first_filter,               \
      int group_filters, int group_channels, int kernel_h, int kernel_w, int stride_h, int stride_w, int top, int left

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
      float sum = bias[filter];
      for (int c = 0; c < group_channels; ++c) {
        for (int r = max(0, -y); r < min(kernel_h, height - y); ++r) {
          for (int s = max(0, -x); s < min(kernel_w, width - x); ++s) {
            sum += from[(c * height + y + r) * width + x + s] * weight[(c * kernel_h + r) * kernel_w + s];
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
          const int oy = (y + top - r) / stride_h;
          if (y + top < r || oy * stride_h != y + top - r || oy >= out_height) continue;
          for (int s = 0; s < kernel_w; ++s) {
            const int ox = (x + left - s) / stride_w;
            if (x + left < s || ox * stride_w != x + left - s || ox >= out_width) continue;
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
    const int y = oy * stride_h - top + r;
    if (y < 0 || y >= height) continue;
    for (int ox = 0; ox < out_width; ++ox) {
      const int x = ox * stride_w - left + s;
      if (x >= 0 && x < width) sum += from[y * width + x] * slopes[oy * out_width + ox];
    }
  }
  slices[(size_t)sample * filters * filter_size + weight] = sum;
}
