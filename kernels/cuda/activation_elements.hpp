// The work of one thread of the kernels of activations that no convolution includes; see elements.hpp.
#pragma once

#include "kernels/cuda/both.hpp"

namespace convoy::cuda {

/// The numbers of a SELU, as in kernels/host/activation.hpp.
constexpr float kSeluSlope = 1.67326319217681884765625F;
constexpr float kSeluScale = 1.05070102214813232421875F;

CONVOY_BOTH inline float logistic(float x) { return 1.0F / (1.0F + expf(-x)); }
/// Returns the probability that a standard normal number is below x.
CONVOY_BOTH inline float normal_below(float x) { return 0.5F * (1.0F + erff(x * 0.70710678118654752440F)); }

/// Returns log(1 + e^x).
CONVOY_BOTH inline float softened(float x) { return (x > 0.0F ? x : 0.0F) + log1pf(expf(-fabsf(x))); }
/// Returns the tanh in the approximation of a GELU.
CONVOY_BOTH inline float height_of_gelu(float x) {
  return tanhf(0.79788456080286535588F * (x + 0.044715F * x * x * x));
}

/// Applies an activation that activate() does not know, by its number: 5 clip, 6 hard sigmoid, 7 ELU, 8 SELU, 9
/// softplus, 10 SiLU, 11 hard swish, 12 GELU, 13 GELU by tanh, 14 mish, 15 CELU. They have kernels of their own, so
/// that those of the others stay small.
CONVOY_BOTH inline float activate_apart(int activation, float x, float alpha, float beta) {
  switch (activation) {
    case 5: return x < alpha ? alpha : x > beta ? beta : x;
    case 6: {
      const float z = alpha * x + beta;
      return z < 0.0F ? 0.0F : z > 1.0F ? 1.0F : z;
    }
    case 7: return x > 0.0F ? x : alpha * expm1f(x);
    case 8: return kSeluScale * (x > 0.0F ? x : kSeluSlope * expm1f(x));
    case 9: return softened(x);
    case 10: return x * logistic(x);
    case 11: return x * (x <= -3.0F ? 0.0F : x >= 3.0F ? 1.0F : (x + 3.0F) / 6.0F);
    case 12: return x * normal_below(x);
    case 13: return x * 0.5F * (1.0F + height_of_gelu(x));
    case 14: return x * tanhf(softened(x));
    case 15: return x > 0.0F ? x : alpha * expm1f(x / alpha);
    default: return x;
  }
}

/// Returns the gradient with respect to the input of such an activation. `kept` is its output, or its input for the
/// numbers 10 to 14.
CONVOY_BOTH inline float gradient_apart(int activation, float kept, float gradient, float alpha, float beta) {
  switch (activation) {
    case 5: return kept <= alpha || kept >= beta ? 0.0F : gradient;
    case 6: return kept <= 0.0F || kept >= 1.0F ? 0.0F : gradient * alpha;
    case 7: return kept > 0.0F ? gradient : gradient * (kept + alpha);
    case 8: return gradient * (kept > 0.0F ? kSeluScale : kept + kSeluScale * kSeluSlope);
    case 9: return gradient * -expm1f(-kept);
    case 10: {
      const float share = logistic(kept);
      return gradient * (share * (1.0F + kept * (1.0F - share)));
    }
    case 11: return kept <= -3.0F ? 0.0F : kept >= 3.0F ? gradient : gradient * (kept / 3.0F + 0.5F);
    case 12: {
      const float density = 0.39894228040143267794F * expf(-0.5F * kept * kept);
      return gradient * (normal_below(kept) + kept * density);
    }
    case 13: {
      const float height = height_of_gelu(kept);
      const float slope = 0.79788456080286535588F * (1.0F + 3.0F * 0.044715F * kept * kept);
      return gradient * 0.5F * (1.0F + height + kept * (1.0F - height * height) * slope);
    }
    case 14: {
      const float height = tanhf(softened(kept));
      return gradient * (height + kept * logistic(kept) * (1.0F - height * height));
    }
    case 15: return kept > 0.0F ? gradient : gradient * (kept / alpha + 1.0F);
    default: return gradient;
  }
}

/// Applies an activation of activate_apart().
struct ActivateApart {
  int activation;
  float alpha;
  float beta;
  const float* input;
  float* output;

  CONVOY_BOTH void operator()(int i) const { output[i] = activate_apart(activation, input[i], alpha, beta); }
};

/// The same as ActivateGradient for an activation of activate_apart().
struct ActivateApartGradient {
  int activation;
  float alpha;
  float beta;
  const float* kept;
  const float* gradient;
  float* input_gradient;

  CONVOY_BOTH void operator()(int i) const {
    input_gradient[i] = gradient_apart(activation, kept[i], gradient[i], alpha, beta);
  }
};

}  // namespace convoy::cuda
