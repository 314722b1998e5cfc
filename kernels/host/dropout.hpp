// Dropout masks drawn on the host, for devices without a generator of their own.
#pragma once

#include <algorithm>

#include "core/random.hpp"
#include "core/stage.hpp"
#include "kernels/device.hpp"

namespace convoy {

/// Fills `samples` of `mask` with the dropout_scale of every element, or with ones outside training. `origin` is
/// the mask's place in the whole stage and batch.
inline void draw_dropout_mask(const Dropout& dropout, const Pass& pass, const Origin& origin, SampleRange samples,
                              Tensor& mask) {
  const std::span<float> drawn = mask.samples(samples.first, samples.count);
  if (!pass.training) {
    std::ranges::fill(drawn, 1.0F);
    return;
  }
  const Shape& shape = mask.shape();
  float* factor = drawn.data();
  for (int n = samples.first; n < samples.first + samples.count; ++n) {
    const int number = origin.number_in_batch(n);
    for (int c = 0; c < shape.c; ++c) {
      for (int i = 0; i < shape.h * shape.w; ++i) {
        const int element = dropout.spatial ? 0 : i;
        *factor++ = dropout_scale(pass.seed, dropout.stream, dropout.rate, number, origin.first_filter + c, element);
      }
    }
  }
}

}  // namespace convoy
