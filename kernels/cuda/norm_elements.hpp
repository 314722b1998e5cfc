// Of what one thread of each CUDA kernel does (cuda_elements.hpp): the optimizer's step, and batch norm.
#pragma once

#include "kernels/cuda/both.hpp"

namespace convoy::cuda {

// ---- parameters -----------------------------------------------------------------------------------------------------

/// core/shard_state.hpp, UpdateStep: 0 SGD, 1 Nesterov's, 2 Adam. `squares` is Adam's alone.
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

  CONVOY_BOTH void operator()(int i) const {
    const float by = gradient_scale * gradient[i] + weight_decay * values[i];
    if (optimizer == 2) {
      velocity[i] = momentum * velocity[i] + (1.0F - momentum) * by;
      squares[i] = beta2 * squares[i] + (1.0F - beta2) * by * by;
      values[i] -= mean_scale * velocity[i] / (sqrtf(square_scale * squares[i]) + epsilon);
    } else {
      velocity[i] = momentum * velocity[i] + by;
      values[i] -= learning_rate * (optimizer == 1 ? by + momentum * velocity[i] : velocity[i]);
    }
  }
};

// ---- batch norm (core/stage.hpp) ------------------------------------------------------------------------------------
// What is summed over the batch is written as maps first, and summed by Gpu::sum_channels.

/// (x - mean)^2, with the mean as the sum of `count` elements.
struct SquareDistances {
  int channels;
  int places;
  float count;
  const float* input;
  const float* sums;
  float* squares;

  CONVOY_BOTH void operator()(int i) const {
    const float distance = input[i] - sums[i / places % channels] / count;
    squares[i] = distance * distance;
  }
};

/// Mean and inverse standard deviation of each channel: in training from the sums of x and of (x - mean)^2, which also go
/// into the running averages; in testing from those.
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

/// The gradient by the output times the normalised input.
struct NormProducts {
  int channels;
  int places;
  const float* input;
  const float* gradient;
  const float* mean;
  const float* inverse;
  float* products;

  CONVOY_BOTH void operator()(int i) const {
    const int c = i / places % channels;
    products[i] = gradient[i] * (input[i] - mean[c]) * inverse[c];
  }
};

/// From the gradient by the output to that by the input; `sums` and `products` as summed over each channel.
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
