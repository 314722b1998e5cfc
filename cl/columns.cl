// The kernels around matrix products. The matrix of columns is (channels * kernel_h * kernel_w, samples * places), as
// im2col builds it. Maps "by channel" are a matrix (channels, samples * places). `sample` is the first of the samples
// computed together. A work-item takes all places of its second and third index on processors, and one place elsewhere.

// im2col. Second and third index: sample, and tap (channel, kernel row and kernel column combined).
kernel void to_columns(global const float* restrict maps, global float* restrict columns, int sample, int samples,
                       int channels, int height, int width, int out_height, int out_width, int kernel_h, int kernel_w,
                       int stride_h, int stride_w, int top, int left, int dilation_h, int dilation_w) {
  const int n = get_global_id(1);
  const int tap = get_global_id(2);
  const int c = tap / (kernel_w * kernel_h);
  const int above = tap / kernel_w % kernel_h * dilation_h - top;
  const int before = tap % kernel_w * dilation_w - left;
  const int places = out_height * out_width;
  global const float* map = maps + ((size_t)(sample + n) * channels + c) * height * width;
  global float* to = columns + ((size_t)tap * samples + n) * places;
  FOR_COLUMNS(p, places) {
    const int y = p / out_width * stride_h + above;
    const int x = p % out_width * stride_w + before;
    to[p] = y >= 0 && y < height && x >= 0 && x < width ? map[y * width + x] : 0.0f;
  }
}

// col2im. Second and third index: channel and sample. Each work-item sums in a fixed order.
kernel void from_columns(global const float* restrict columns, global float* restrict maps, int sample, int samples,
                         int channels, int height, int width, int out_height, int out_width, int kernel_h, int kernel_w,
                         int stride_h, int stride_w, int top, int left, int dilation_h, int dilation_w) {
  const int c = get_global_id(1);
  const int n = get_global_id(2);
  global float* map = maps + ((size_t)(sample + n) * channels + c) * height * width;
  FOR_COLUMNS(p, height * width) {
    const int reach_y = p / width + top;
    const int reach_x = p % width + left;
    const int under_h = (kernel_h - 1) * dilation_h + 1;
    const int under_w = (kernel_w - 1) * dilation_w + 1;
    const int first_y = reach_y < under_h ? 0 : (reach_y - under_h) / stride_h + 1;
    const int first_x = reach_x < under_w ? 0 : (reach_x - under_w) / stride_w + 1;
    const int last_y = min(reach_y / stride_h + 1, out_height);
    const int last_x = min(reach_x / stride_w + 1, out_width);
    float sum = 0.0f;
    for (int out_y = first_y; out_y < last_y; ++out_y) {
      const int r = (reach_y - out_y * stride_h) / dilation_h;
      if (r * dilation_h != reach_y - out_y * stride_h) continue;
      for (int out_x = first_x; out_x < last_x; ++out_x) {
        const int s = (reach_x - out_x * stride_w) / dilation_w;
        if (s * dilation_w != reach_x - out_x * stride_w) continue;
        const int tap = (c * kernel_h + r) * kernel_w + s;
        sum += columns[(((size_t)tap * samples + n) * out_height + out_y) * out_width + out_x];
      }
    }
    map[p] = sum;
  }
}

// Adds the bias and applies the activation. Second and third index: channel and sample.
kernel void from_channels(global const float* restrict by_channel, global const float* restrict bias,
                          global float* restrict maps, int sample, int samples, int channels, int places,
                          int activation) {
  const int c = get_global_id(1);
  const int n = get_global_id(2);
  global const float* from = by_channel + ((size_t)c * samples + n) * places;
  global float* to = maps + ((size_t)(sample + n) * channels + c) * places;
  FOR_COLUMNS(p, places) to[p] = activate(activation, from[p] + bias[c], 0.0f);
}

// Second and third index: sample and channel.
kernel void to_channels(global const float* restrict maps, global float* restrict by_channel, int sample, int samples,
                        int channels, int places) {
  const int n = get_global_id(1);
  const int c = get_global_id(2);
  global const float* from = maps + ((size_t)(sample + n) * channels + c) * places;
  global float* to = by_channel + ((size_t)c * samples + n) * places;
  FOR_COLUMNS(p, places) to[p] = from[p];
}
