// The work of one thread of each CUDA kernel, in C++17 that also runs on the host: the tests compute whole stages with
// these functions on machines without a GPU (tests/kernels/host_gpu.cpp). Maps are NCHW floats; `i` is the index of the
// kernel's result.
#pragma once

#include "kernels/cuda/activation_elements.hpp"
#include "kernels/cuda/group_elements.hpp"
#include "kernels/cuda/group_norm_elements.hpp"
#include "kernels/cuda/map_elements.hpp"
#include "kernels/cuda/norm_elements.hpp"
#include "kernels/cuda/resizing_elements.hpp"

namespace convoy::cuda {

/// Applies an activation by its number in kernels: 0 none, 1 ReLU, 2 sigmoid, 3 tanh, 4 leaky ReLU with the slope
/// `negative`. The activation of a NaN is NaN.
CONVOY_BOTH inline float activate(int activation, float value, float negative = 0.0F) {
  switch (activation) {
    case 1: return value < 0.0F ? 0.0F : value;
    case 2: return 1.0F / (1.0F + expf(-value));
    case 3: return tanhf(value);
    case 4: return value > 0.0F ? value : negative * value;
    default: return value;
  }
}

/// Returns the derivative of an activation, computed from its output. A ReLU's is 1 where the output is NaN.
CONVOY_BOTH inline float slope(int activation, float output, float negative) {
  switch (activation) {
    case 1: return output <= 0.0F ? 0.0F : 1.0F;
    case 4: return output > 0.0F ? 1.0F : negative;
    case 2: return output * (1.0F - output);
    case 3: return 1.0F - output * output;
    default: return 1.0F;
  }
}

// ---- convolution by matrix products ---------------------------------------------------------------------------------
// The matrix of columns is (channels * kernel_h * kernel_w, samples * places), as im2col builds it: one row for each
// weight of a filter, one column for each place of the output (Chellapilla et al., "High performance convolutional
// neural networks for document processing", 2006). Maps "by channel" are a matrix (channels, samples * places).

/// im2col: maps to columns.
struct ToColumns {
  Window window;
  int channels;
  int samples;
  const float* maps;
  float* columns;

  CONVOY_BOTH void operator()(int i) const {
    const Window& w = window;
    const int out_x = i % w.out_width;
    const int out_y = i / w.out_width % w.out_height;
    const int places = w.out_width * w.out_height;
    const int n = i / places % samples;
    const int tap = i / places / samples;
    const int y = out_y * w.stride_h - w.top + tap / w.kernel_w % w.kernel_h * w.dilation_h;
    const int x = out_x * w.stride_w - w.left + tap % w.kernel_w * w.dilation_w;
    const int c = tap / (w.kernel_w * w.kernel_h);
    const bool within = y >= 0 && y < w.height && x >= 0 && x < w.width;
    columns[i] = within ? maps[((n * channels + c) * w.height + y) * w.width + x] : 0.0F;
  }
};

/// col2im: gradients with respect to columns to gradients with respect to maps. Each thread sums in a fixed order.
struct FromColumns {
  Window window;
  int channels;
  int samples;
  const float* columns;
  float* maps;

  CONVOY_BOTH void operator()(int i) const {
    const Window& w = window;
    const MapElement e = element_of(w, i);
    const int c = e.map % channels;
    const int n = e.map / channels;
    float sum = 0.0F;
    for (int out_y = e.rows.first; out_y < e.rows.last; ++out_y) {
      const int r = tap_at(e.y + w.top - out_y * w.stride_h, w.dilation_h);
      if (r < 0) continue;
      for (int out_x = e.across.first; out_x < e.across.last; ++out_x) {
        const int s = tap_at(e.x + w.left - out_x * w.stride_w, w.dilation_w);
        if (s < 0) continue;
        const int tap = (c * w.kernel_h + r) * w.kernel_w + s;
        sum += columns[((tap * samples + n) * w.out_height + out_y) * w.out_width + out_x];
      }
    }
    maps[i] = sum;
  }
};

/// Maps by channel to NCHW maps; adds each channel's bias, where there is one, and applies the activation on the way.
struct FromChannels {
  int channels;
  int samples;
  int places;
  int activation;
  const float* by_channel;
  const float* bias;
  float* maps;

  CONVOY_BOTH void operator()(int i) const {
    const int p = i % places;
    const int c = i / places % channels;
    const int n = i / places / channels;
    maps[i] = activate(activation, by_channel[(c * samples + n) * places + p] + (bias == nullptr ? 0.0F : bias[c]));
  }
};

/// NCHW maps to maps by channel.
struct ToChannels {
  int channels;
  int samples;
  int places;
  const float* maps;
  float* by_channel;

  CONVOY_BOTH void operator()(int i) const {
    const int p = i % places;
    const int n = i / places % samples;
    const int c = i / places / samples;
    by_channel[i] = maps[(n * channels + c) * places + p];
  }
};

/// Adds each channel's bias, where there is one, and applies the activation, in place.
struct AddBias {
  int channels;
  int places;
  int activation;
  const float* bias;
  float* maps;

  CONVOY_BOTH void operator()(int i) const {
    maps[i] = activate(activation, maps[i] + (bias == nullptr ? 0.0F : bias[i / places % channels]));
  }
};

// ---- layers after a convolution -------------------------------------------------------------------------------------

/// Applies an activation.
struct Activate {
  int activation;
  float negative;
  const float* input;
  float* output;

  CONVOY_BOTH void operator()(int i) const { output[i] = activate(activation, input[i], negative); }
};

/// Gradient with respect to the output of an activation to the gradient with respect to its input.
struct ActivateGradient {
  int activation;
  float negative;
  const float* output;
  const float* gradient;
  float* input_gradient;

  CONVOY_BOTH void operator()(int i) const { input_gradient[i] = gradient[i] * slope(activation, output[i], negative); }
};

/// Adds two tensors.
struct Sum {
  const float* input;
  const float* added;
  float* output;

  CONVOY_BOTH void operator()(int i) const { output[i] = input[i] + added[i]; }
};

/// Copies a tensor.
struct Copy {
  const float* input;
  float* output;

  CONVOY_BOTH void operator()(int i) const { output[i] = input[i]; }
};

/// Multiplies two tensors element by element.
struct Multiply {
  const float* input;
  const float* factors;
  float* output;

  CONVOY_BOTH void operator()(int i) const { output[i] = input[i] * factors[i]; }
};

/// Multiplies each map of `places` elements by one number.
struct MultiplyByPoints {
  int places;
  const float* input;
  const float* factors;
  float* output;

  CONVOY_BOTH void operator()(int i) const { output[i] = input[i] * factors[i / places]; }
};

/// Sums the products of two maps of `places` elements; element i is a map.
struct SumProducts {
  int places;
  const float* gradient;
  const float* input;
  float* sums;

  CONVOY_BOTH void operator()(int i) const {
    float sum = 0.0F;
    for (int p = i * places; p < (i + 1) * places; ++p) sum += gradient[p] * input[p];
    sums[i] = sum;
  }
};

/// Max pooling. Padding never wins; among equal elements the first does; a NaN wins over every number. `places` holds
/// the index of the maximum in its map. After a ReLU a maximum of zero has no place (-1), because the ReLU's slope is
/// zero there.
struct MaxPool {
  Window window;
  bool after_relu;
  const float* input;
  float* output;
  int* places;

  CONVOY_BOTH void operator()(int i) const {
    const Place p = place_of(window, i);
    const float* map = input + p.map;
    int best = p.rows.first * window.width + p.across.first;
    for (int y = p.rows.first; y < p.rows.last; y += window.dilation_h) {
      for (int x = p.across.first; x < p.across.last; x += window.dilation_w) {
        const float value = map[y * window.width + x];
        if (value > map[best] || value != value) best = y * window.width + x;
      }
    }
    output[i] = map[best];
    places[i] = after_relu && map[best] <= 0.0F ? -1 : best;
  }
};

/// Sums, for each element of the input, the gradients of the windows whose maximum it was.
struct MaxPoolGradient {
  Window window;
  const float* gradient;
  const int* places;
  float* input_gradient;

  CONVOY_BOTH void operator()(int i) const {
    const Window& w = window;
    const MapElement e = element_of(w, i);
    float sum = 0.0F;
    for (int out_y = e.rows.first; out_y < e.rows.last; ++out_y) {
      for (int out_x = e.across.first; out_x < e.across.last; ++out_x) {
        const int at = (e.map * w.out_height + out_y) * w.out_width + out_x;
        if (places[at] == e.y * w.width + e.x) sum += gradient[at];
      }
    }
    input_gradient[i] = sum;
  }
};

/// Average pooling, which divides by `divisor`, or where it is 0 by the number of elements inside the map.
struct AveragePool {
  Window window;
  int divisor;
  const float* input;
  float* output;

  CONVOY_BOTH void operator()(int i) const {
    const Place p = place_of(window, i);
    float sum = 0.0F;
    for (int y = p.rows.first; y < p.rows.last; ++y) {
      for (int x = p.across.first; x < p.across.last; ++x) sum += input[p.map + y * window.width + x];
    }
    const int inside = (p.rows.last - p.rows.first) * (p.across.last - p.across.first);
    output[i] = sum / static_cast<float>(divisor > 0 ? divisor : inside);
  }
};

/// Sums, for each element of the input, its parts of the gradients of all windows over it.
struct AveragePoolGradient {
  Window window;
  int divisor;
  const float* gradient;
  float* input_gradient;

  CONVOY_BOTH void operator()(int i) const {
    const Window& w = window;
    const MapElement e = element_of(w, i);
    float sum = 0.0F;
    for (int out_y = e.rows.first; out_y < e.rows.last; ++out_y) {
      const Cover under = inside(out_y, w.top, w.kernel_h, w.stride_h, w.height);
      for (int out_x = e.across.first; out_x < e.across.last; ++out_x) {
        const Cover beside = inside(out_x, w.left, w.kernel_w, w.stride_w, w.width);
        const int within = (under.last - under.first) * (beside.last - beside.first);
        const int elements = divisor > 0 ? divisor : within;
        sum += gradient[(e.map * w.out_height + out_y) * w.out_width + out_x] / static_cast<float>(elements);
      }
    }
    input_gradient[i] = sum;
  }
};

// All kernels whose threads write an element each; the list generates the declarations and definitions of Gpu::run.
#define CONVOY_CUDA_ELEMENTS(X) \
  X(GroupedConvolve)            \
  X(GroupedInputGradient)       \
  X(GroupedFilterSlices)        \
  X(SumSlices)                  \
  X(ToColumns)                  \
  X(FromColumns)                \
  X(FromChannels)               \
  X(ToChannels)                 \
  X(AddBias)                    \
  X(Activate)                   \
  X(ActivateGradient)           \
  X(TakeChannels)               \
  X(NormalisePixels)            \
  X(PassChannels)               \
  X(PassChannelsGradient)       \
  X(NormaliseResponse)          \
  X(NormaliseResponseGradient)  \
  X(PositionMoments)            \
  X(PositionSlopes)             \
  X(NormaliseGroups)            \
  X(NormaliseGroupsGradient)    \
  X(Resize)                     \
  X(ResizeGradient)             \
  X(Drop)                       \
  X(ActivateApart)              \
  X(ActivateApartGradient)      \
  X(Sum)                        \
  X(Copy)                       \
  X(Multiply)                   \
  X(MultiplyByPoints)           \
  X(SumProducts)                \
  X(MaxPool)                    \
  X(MaxPoolGradient)            \
  X(AveragePool)                \
  X(AveragePoolGradient)        \
  X(NormMoments)                \
  X(Normalise)                  \
  X(NormGradient)               \
  X(FindBroken)                 \
  X(Update)

// All summands; the list generates the declarations and definitions of Gpu::sum.
#define CONVOY_CUDA_SUMMANDS(X) \
  X(Values)                     \
  X(GroupValues)                \
  X(GroupSquares)               \
  X(GroupSlopes)                \
  X(SquareDistances)            \
  X(NormSlopes)

}  // namespace convoy::cuda
