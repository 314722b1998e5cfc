// Activations that no convolution includes. The source is compiled for one of them, with its number in the macro
// ACTIVATION: 5 clip, 6 hard sigmoid, 7 ELU, 8 SELU, 9 softplus, 10 SiLU, 11 hard swish, 12 GELU, 13 GELU by tanh, 14
// mish, 15 CELU. `alpha` and `beta` are the numbers of Activation (core/stage.hpp). A comparison with NaN is false, so
// comparisons name what is cut off. Where tanh is close to 1 or -1, a driver's own may be off by its last bit, which a
// large input multiplies; so (1 + tanh(x)) / 2 is the logistic function of 2x here, and mish has exponentials alone.

#define SELU_ALPHA 1.67326319217681884765625f
#define SELU_GAMMA 1.05070102214813232421875f

float logistic(float x) { return 1.0f / (1.0f + exp(-x)); }
// The probability that a standard normal number is below x.
float normal_below(float x) { return 0.5f * (1.0f + erf(x * 0.70710678118654752440f)); }
float softened(float x) { return (x > 0.0f ? x : 0.0f) + log1p(exp(-fabs(x))); }
// Twice the argument of the tanh in the approximation of a GELU.
float place_in_gelu(float x) { return 1.59576912160573071176f * (x + 0.044715f * x * x * x); }
// tanh(softplus(x)), and 1 minus its square.
float height_of_mish(float x) {
  const float v = exp(-fabs(x));
  return x > 0.0f ? (1.0f + 2.0f * v) / (1.0f + 2.0f * v + 2.0f * v * v) : v * (v + 2.0f) / (v * (v + 2.0f) + 2.0f);
}
float slope_of_mish(float x) {
  const float v = exp(-fabs(x));
  if (x > 0.0f) {
    const float below = 1.0f + 2.0f * v + 2.0f * v * v;
    return 4.0f * v * v * (1.0f + v) * (1.0f + v) / (below * below);
  }
  const float n = v * (v + 2.0f);
  return 4.0f * (n + 1.0f) / ((n + 2.0f) * (n + 2.0f));
}

float activated(float x, float alpha, float beta) {
#if ACTIVATION == 5
  return x < alpha ? alpha : x > beta ? beta : x;
#elif ACTIVATION == 6
  const float z = alpha * x + beta;
  return z < 0.0f ? 0.0f : z > 1.0f ? 1.0f : z;
#elif ACTIVATION == 7
  return x > 0.0f ? x : alpha * expm1(x);
#elif ACTIVATION == 8
  return SELU_GAMMA * (x > 0.0f ? x : SELU_ALPHA * expm1(x));
#elif ACTIVATION == 9
  return softened(x);
#elif ACTIVATION == 10
  return x * logistic(x);
#elif ACTIVATION == 11
  return x * (x <= -3.0f ? 0.0f : x >= 3.0f ? 1.0f : (x + 3.0f) / 6.0f);
#elif ACTIVATION == 12
  return x * normal_below(x);
#elif ACTIVATION == 13
  return x * logistic(place_in_gelu(x));
#elif ACTIVATION == 14
  return x * height_of_mish(x);
#elif ACTIVATION == 15
  return x > 0.0f ? x : alpha * expm1(x / alpha);
#endif
}

// Returns the gradient with respect to the input. `kept` is the activation's output, or its input for the numbers 10 to
// 14.
float gradient_of(float kept, float gradient, float alpha, float beta) {
#if ACTIVATION == 5
  return kept <= alpha || kept >= beta ? 0.0f : gradient;
#elif ACTIVATION == 6
  return kept <= 0.0f || kept >= 1.0f ? 0.0f : gradient * alpha;
#elif ACTIVATION == 7
  return kept > 0.0f ? gradient : gradient * (kept + alpha);
#elif ACTIVATION == 8
  return gradient * (kept > 0.0f ? SELU_GAMMA : kept + SELU_GAMMA * SELU_ALPHA);
#elif ACTIVATION == 9
  return gradient * -expm1(-kept);
#elif ACTIVATION == 10
  const float share = logistic(kept);
  return gradient * (share * (1.0f + kept * (1.0f - share)));
#elif ACTIVATION == 11
  return kept <= -3.0f ? 0.0f : kept >= 3.0f ? gradient : gradient * (kept / 3.0f + 0.5f);
#elif ACTIVATION == 12
  const float density = 0.39894228040143267794f * exp(-0.5f * kept * kept);
  return gradient * (normal_below(kept) + kept * density);
#elif ACTIVATION == 13
  const float place = place_in_gelu(kept);
  const float slope = 1.59576912160573071176f * (1.0f + 3.0f * 0.044715f * kept * kept);
  return gradient * (logistic(place) + kept * slope * logistic(place) * logistic(-place));
#elif ACTIVATION == 14
  return gradient * (height_of_mish(kept) + kept * logistic(kept) * slope_of_mish(kept));
#elif ACTIVATION == 15
  return kept > 0.0f ? gradient : gradient * (kept / alpha + 1.0f);
#endif
}

kernel void activate_maps(global const float* restrict input, global float* restrict output, int height, int width,
                          float alpha, float beta) {
  const size_t map = get_global_id(2);
  FOR_ROWS(y, height) {
    const size_t row = (map * height + y) * width;
    FOR_COLUMNS(x, width) output[row + x] = activated(input[row + x], alpha, beta);
  }
}

kernel void activate_maps_gradient(global const float* restrict kept, global const float* restrict gradient,
                                   global float* restrict input_gradient, int height, int width, float alpha,
                                   float beta) {
  const size_t map = get_global_id(2);
  FOR_ROWS(y, height) {
    const size_t row = (map * height + y) * width;
    FOR_COLUMNS(x, width) input_gradient[row + x] = gradient_of(kept[row + x], gradient[row + x], alpha, beta);
  }
}
