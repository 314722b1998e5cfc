// The work of one thread of each CUDA kernel (elements.hpp) for convolutions in many groups, such as depthwise
// convolutions, whose filters read too few channels to share input.
#pragma once

#include "kernels/cuda/window.hpp"

namespace convoy::cuda {

/// Filters first_filter .. first_filter + filters - 1 of a stage. Each group has group_filters filters and
/// group_channels channels. The input has all channels of the stage.
struct Groups {
  int channels;
  int filters;
  int first_filter;
  int group_filters;
  int group_channels;

  /// Returns the first channel that a filter reads.
  CONVOY_BOTH int first_channel(int filter) const { return (first_filter + filter) / group_filters * group_channels; }
};

/// Forward convolution, without bias.
struct GroupedConvolve {
  Window w;
  Groups g;
  const float* input;
  const float* weights;
  float* maps;

  CONVOY_BOTH void operator()(int i) const {
    const int map = i / (w.out_width * w.out_height);
    const int filter = map % g.filters;
    const float* from =
        input + static_cast<long>(map / g.filters * g.channels + g.first_channel(filter)) * w.height * w.width;
    const float* weight = weights + filter * g.group_channels * w.kernel_h * w.kernel_w;
    const int top = i / w.out_width % w.out_height * w.stride_h - w.top;
    const int left = i % w.out_width * w.stride_w - w.left;
    const Cover rows = taps_inside(top, w.kernel_h, w.dilation_h, w.height);
    const Cover across = taps_inside(left, w.kernel_w, w.dilation_w, w.width);
    float sum = 0.0F;
    for (int c = 0; c < g.group_channels; ++c) {
      for (int r = rows.first; r < rows.last; ++r) {
        const int row = (c * w.height + top + r * w.dilation_h) * w.width + left;
        for (int s = across.first; s < across.last; ++s) {
          sum += from[row + s * w.dilation_w] * weight[(c * w.kernel_h + r) * w.kernel_w + s];
        }
      }
    }
    maps[i] = sum;
  }
};

/// Gradient with respect to the input; zero for channels that no filter of the shard reads.
struct GroupedInputGradient {
  Window w;
  Groups g;
  const float* gradient;
  const float* weights;
  float* input_gradient;

  CONVOY_BOTH void operator()(int i) const {
    const MapElement to = element_of(w, i);
    const int channel = to.map % g.channels;
    const int group = channel / g.group_channels;
    const int last = smaller(g.filters, (group + 1) * g.group_filters - g.first_filter);
    const float* from = gradient + static_cast<long>(to.map / g.channels) * g.filters * w.out_height * w.out_width;
    float sum = 0.0F;
    for (int filter = larger(0, group * g.group_filters - g.first_filter); filter < last; ++filter) {
      const int at = (filter * g.group_channels + channel - group * g.group_channels) * w.kernel_h;
      for (int oy = to.rows.first; oy < to.rows.last; ++oy) {
        const int r = tap_at(to.y + w.top - oy * w.stride_h, w.dilation_h);
        if (r < 0) continue;
        for (int ox = to.across.first; ox < to.across.last; ++ox) {
          const int s = tap_at(to.x + w.left - ox * w.stride_w, w.dilation_w);
          if (s < 0) continue;
          sum += from[(filter * w.out_height + oy) * w.out_width + ox] * weights[(at + r) * w.kernel_w + s];
        }
      }
    }
    input_gradient[i] = sum;
  }
};

/// Each sample's part of the gradient with respect to the weights: (samples, weights).
struct GroupedFilterSlices {
  Window w;
  Groups g;
  const float* input;
  const float* gradient;
  float* slices;

  CONVOY_BOTH void operator()(int i) const {
    const int filter_size = g.group_channels * w.kernel_h * w.kernel_w;
    const int weight = i % (g.filters * filter_size);
    const int sample = i / (g.filters * filter_size);
    const int filter = weight / filter_size;
    const int channel = g.first_channel(filter) + weight / (w.kernel_w * w.kernel_h) % g.group_channels;
    const float* from = input + static_cast<long>(sample * g.channels + channel) * w.height * w.width;
    const float* slopes = gradient + static_cast<long>(sample * g.filters + filter) * w.out_height * w.out_width;
    float sum = 0.0F;
    for (int oy = 0; oy < w.out_height; ++oy) {
      const int y = oy * w.stride_h - w.top + weight / w.kernel_w % w.kernel_h * w.dilation_h;
      if (y < 0 || y >= w.height) continue;
      for (int ox = 0; ox < w.out_width; ++ox) {
        const int x = ox * w.stride_w - w.left + weight % w.kernel_w * w.dilation_w;
        if (x >= 0 && x < w.width) sum += from[y * w.width + x] * slopes[oy * w.out_width + ox];
      }
    }
    slices[i] = sum;
  }
};

/// Sums a (number, count) matrix over `number`, in ascending order.
struct SumSlices {
  int number;
  int count;
  const float* slices;
  float* sums;

  CONVOY_BOTH void operator()(int i) const {
    float sum = 0.0F;
    for (int s = 0; s < number; ++s) sum += slices[static_cast<long>(s) * count + i];
    sums[i] = sum;
  }
};

}  // namespace convoy::cuda
