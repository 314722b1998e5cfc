// Stages without weights: shuffles of channels and response norm (core/stage.hpp). Work-items are those of maps.cl. A
// shard has `count` channels of its stage, from `first` on; its input has all `channels`.

// Copies the channels of a shuffle in `groups` groups to the shard's maps, or the gradient with respect to these maps
// `back` to its channels of the input gradient.
kernel void shuffle_channels(global const float* restrict from, global float* restrict to, int count, int channels,
                             int first, int groups, int back, int height, int width) {
  const size_t map = get_global_id(2);
  const int filter = first + (int)(map % count);
  const size_t other = map / count * channels + filter % groups * (channels / groups) + filter / groups;
  const size_t size = (size_t)height * width;
  from += (back ? map : other) * size;
  to += (back ? other : map) * size;
  FOR_ROWS(y, height) {
    const size_t row = (size_t)y * width;
    FOR_COLUMNS(x, width) to[row + x] = from[row + x];
  }
}

// The window around a channel has `size` channels, of which (size - 1) / 2 come before it. `bases` are the numbers that
// are raised to the power of -beta; `share` is alpha / size.
kernel void normalise_response(global const float* restrict input, global float* restrict maps,
                               global float* restrict bases, int count, int channels, int first, int size, float share,
                               float k, float beta, int height, int width) {
  const size_t map = get_global_id(2);
  const int channel = first + (int)(map % count);
  const int start = channel - (size - 1) / 2;
  const int begin = max(start, 0);
  const int end = min(start + size, channels);
  const size_t plane = (size_t)height * width;
  global const float* sample = input + map / count * channels * plane;
  FOR_ROWS(y, height) {
    const size_t row = (size_t)y * width;
    FOR_COLUMNS(x, width) {
      float base = k;
      for (int j = begin; j < end; ++j) {
        const float near = sample[j * plane + row + x];
        base += share * near * near;
      }
      bases[map * plane + row + x] = base;
      maps[map * plane + row + x] = sample[channel * plane + row + x] * pow(base, -beta);
    }
  }
}

// Writes, for each output, the number by which every input of its window is multiplied in the gradient with respect to
// the input. The argument `factor` is -2 alpha beta / size.
kernel void response_parts(global const float* restrict input, global const float* restrict gradient,
                           global const float* restrict bases, global float* restrict parts, int count, int channels,
                           int first, float factor, float beta, int height, int width) {
  const size_t map = get_global_id(2);
  const size_t plane = (size_t)height * width;
  global const float* own = input + (map / count * channels + first + map % count) * plane;
  FOR_ROWS(y, height) {
    const size_t row = (size_t)y * width;
    FOR_COLUMNS(x, width) {
      const size_t at = map * plane + row + x;
      parts[at] = factor * gradient[at] * own[row + x] * pow(bases[at], -beta) / bases[at];
    }
  }
}

// Computes the input's maps: each input gathers the parts of the outputs in whose windows it is.
kernel void response_gradient(global const float* restrict input, global const float* restrict gradient,
                              global const float* restrict bases, global const float* restrict parts,
                              global float* restrict input_gradient, int count, int channels, int first, int size,
                              float beta, int height, int width) {
  const size_t map = get_global_id(2);
  const int channel = (int)(map % channels) - first;  // counted from the shard's first
  const int last = channel + (size - 1) / 2;          // the last output whose window holds the channel
  const int begin = max(last - size + 1, 0);
  const int end = min(last + 1, count);
  const size_t plane = (size_t)height * width;
  const size_t sample = map / channels * count * plane;
  FOR_ROWS(y, height) {
    const size_t row = (size_t)y * width;
    FOR_COLUMNS(x, width) {
      const float value = input[map * plane + row + x];
      float sum = 0.0f;
      if (channel >= 0 && channel < count) {
        const size_t own = sample + channel * plane + row + x;
        sum = gradient[own] * pow(bases[own], -beta);
      }
      for (int c = begin; c < end; ++c) sum += parts[sample + c * plane + row + x] * value;
      input_gradient[map * plane + row + x] = sum;
    }
  }
}
