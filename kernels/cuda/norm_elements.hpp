// The work of one thread of each CUDA kernel (elements.hpp), for the optimizer's step and batch norm.
#pragma once

#include "kernels/cuda/both.hpp"

namespace convoy::cuda {

// ---- parameters -----------------------------------------------------------------------------------------------------

/// Returns whether a value is neither infinite nor NaN.
CONVOY_BOTH inline bool is_finite(float value) { return value - value == 0.0F; }

// One operation of an update, rounded by itself. CUDA's compiler would fuse a product and a sum.
#ifdef __CUDA_ARCH__
CONVOY_BOTH inline float product(float a, float b) { return __fmul_rn(a, b); }
CONVOY_BOTH inline float sum(float a, float b) { return __fadd_rn(a, b); }
CONVOY_BOTH inline float quotient(float a, float b) { return __fdiv_rn(a, b); }
CONVOY_BOTH inline float root(float a) { return __fsqrt_rn(a); }
#else
CONVOY_BOTH inline float product(float a, float b) { return a * b; }
CONVOY_BOTH inline float sum(float a, float b) { return a + b; }
CONVOY_BOTH inline float quotient(float a, float b) { return a / b; }
CONVOY_BOTH inline float root(float a) { return sqrtf(a); }
#endif

/// Sets `broken` where a value is not finite.
struct FindBroken {
  const float* values;
  int* broken;

  CONVOY_BOTH void operator()(int i) const {
    if (!is_finite(values[i])) *broken = 1;
  }
};

/// The optimizer's step (UpdateStep in core/shard_state.hpp), to the bit. `optimizer` is 0 for SGD, 1 for Nesterov, 2
/// for Adam; only Adam uses `squares`. Sets `broken` where a result is not finite.
struct Update {
  int optimizer;
  float gradient_scale;
  float learning_rate;
  float momentum;
  float weight_decay;
  float beta2;
  float epsilon;
  float mean_scale;    ///< learning rate / correction1
  float square_scale;  ///< 1 / correction2
  const float* gradient;
  float* velocity;
  float* squares;
  float* values;
  int* broken;

  CONVOY_BOTH void operator()(int i) const {
    const float by = sum(product(gradient_scale, gradient[i]), product(weight_decay, values[i]));
    float change = 0.0F;
    if (optimizer == 2) {
      velocity[i] = sum(product(momentum, velocity[i]), product(1.0F - momentum, by));
      squares[i] = sum(product(beta2, squares[i]), product(product(1.0F - beta2, by), by));
      change = quotient(product(mean_scale, velocity[i]), sum(root(product(square_scale, squares[i])), epsilon));
    } else {
      velocity[i] = sum(product(momentum, velocity[i]), by);
      change = product(learning_rate, optimizer == 1 ? sum(by, product(momentum, velocity[i])) : velocity[i]);
    }
    values[i] = sum(values[i], -change);
    if (!is_finite(values[i]) || (optimizer == 2 && !is_finite(squares[i]))) *broken = 1;
  }
};

// ---- sums over the batch --------------------------------------------------------------------------------------------
// What Gpu::sum adds up for each channel: element i of the maps, which belongs to channel c, adds kSums numbers to
// `sums`.

/// The values of maps.
struct Values {
  static constexpr int kSums = 1;
  const float* maps;

  CONVOY_BOTH void operator()(int i, int, float* sums) const { sums[0] += maps[i]; }
};

/// (x - mean)^2, where mean = sum / count.
struct SquareDistances {
  static constexpr int kSums = 1;
  float count;
  const float* input;
  const float* sums_of_input;

  CONVOY_BOTH void operator()(int i, int c, float* sums) const {
    const float distance = input[i] - sums_of_input[c] / count;
    sums[0] += distance * distance;
  }
};

/// The gradient with respect to the output of a batch norm, and its product with the normalised input.
struct NormSlopes {
  static constexpr int kSums = 2;
  const float* input;
  const float* gradient;
  const float* mean;
  const float* inverse;

  CONVOY_BOTH void operator()(int i, int c, float* sums) const {
    sums[0] += gradient[i];
    sums[1] += gradient[i] * (input[i] - mean[c]) * inverse[c];
  }
};

// ---- batch norm (core/stage.hpp) ------------------------------------------------------------------------------------

/// Mean and inverse standard deviation of each channel. In training they come from the sums of x and of (x - mean)^2,
/// and update the running averages; outside training they come from the running averages.
struct NormMoments {
  bool training;
  float count;
  float epsilon;
  float momentum;
  const float* sums;
  const float* squares;
  float* running_mean;
  float* running_variance;
  float* mean;
  float* inverse;

  CONVOY_BOTH void operator()(int c) const {
    if (training) {
      const float unbiased = squares[c] / (count > 1.0F ? count - 1.0F : 1.0F);
      mean[c] = sums[c] / count;
      inverse[c] = 1.0F / sqrtf(squares[c] / count + epsilon);
      running_mean[c] = (1.0F - momentum) * running_mean[c] + momentum * mean[c];
      running_variance[c] = (1.0F - momentum) * running_variance[c] + momentum * unbiased;
    } else {
      mean[c] = running_mean[c];
      inverse[c] = 1.0F / sqrtf(running_variance[c] + epsilon);
    }
  }
};

/// Normalises maps with each channel's mean and inverse standard deviation.
struct Normalise {
  int channels;
  int places;
  const float* input;
  const float* mean;
  const float* inverse;
  const float* weight;
  const float* bias;
  float* output;

  CONVOY_BOTH void operator()(int i) const {
    const int c = i / places % channels;
    output[i] = (input[i] - mean[c]) * (inverse[c] * weight[c]) + bias[c];
  }
};

/// Gradient with respect to the output to the gradient with respect to the input; `sums` and `products` are sums over
/// each channel.
struct NormGradient {
  int channels;
  int places;
  float count;
  const float* input;
  const float* gradient;
  const float* mean;
  const float* inverse;
  const float* weight;
  const float* sums;
  const float* products;
  float* input_gradient;

  CONVOY_BOTH void operator()(int i) const {
    const int c = i / places % channels;
    const float normal = (input[i] - mean[c]) * inverse[c];
    input_gradient[i] = weight[c] * inverse[c] * (gradient[i] - sums[c] / count - normal * (products[c] / count));
  }
};

}  // namespace convoy::cuda
