#include "kernels/host/max_pool.hpp"

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace convoy {
namespace {

/// Fills with integers from 0 to 3, so that most windows have equal maxima.
std::vector<float> few_values(std::size_t count) {
  Random random(1, 2);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.below(4));
  return values;
}

/// Max pooling and its gradient by their definition, element by element.
struct Plain {
  std::vector<float> output;
  std::vector<float> input_gradient;
};

Plain pool_plainly(const Pooling& pool, const LanedMaps& maps, const std::vector<float>& input,
                   const std::vector<float>& gradient, bool after_relu) {
  const Shape out = pooled_shape(pool, {1, 1, maps.height, maps.width});
  const auto at = [&](int p, int y, int x, int lane) {
    return ((static_cast<std::size_t>(p) * maps.height + y) * maps.width + x) * maps.lanes + lane;
  };
  Plain plain{std::vector<float>(gradient.size()), std::vector<float>(input.size(), 0.0F)};
  std::size_t o = 0;
  for (int p = 0; p < maps.planes; ++p) {
    for (int oy = 0; oy < out.h; ++oy) {
      for (int ox = 0; ox < out.w; ++ox) {
        for (int lane = 0; lane < maps.lanes; ++lane, ++o) {
          std::size_t best = input.size();
          for (int r = 0; r < pool.kernel_h; ++r) {
            for (int s = 0; s < pool.kernel_w; ++s) {
              const int y = oy * pool.stride_h - pool.pad.top + r * pool.dilation_h;
              const int x = ox * pool.stride_w - pool.pad.left + s * pool.dilation_w;
              if (y < 0 || y >= maps.height || x < 0 || x >= maps.width) continue;
              if (best == input.size() || input[at(p, y, x, lane)] > input[best]) best = at(p, y, x, lane);
            }
          }
          plain.output[o] = input[best];
          if (!after_relu || input[best] > 0.0F) plain.input_gradient[best] += gradient[o];
        }
      }
    }
  }
  return plain;
}

TEST(MaxPool, FirstOfEqualsWinsInEveryLane) {
  const Pooling two{};
  const Pooling overlapping{.kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad = {1, 1, 1, 1}};
  const Pooling sparse{.kernel_h = 2, .kernel_w = 1, .stride_h = 3, .stride_w = 2, .pad = {1, 0, 0, 0}};
  const Pooling dilated{.kernel_h = 3,
                        .kernel_w = 2,
                        .stride_h = 1,
                        .stride_w = 2,
                        .pad = {3, 2, 1, 0},
                        .dilation_h = 2,
                        .dilation_w = 3};
  for (const Pooling& pool : {two, overlapping, sparse, dilated}) {
    for (const int lanes : {1, 3, 16, 37}) {
      for (const bool after_relu : {false, true}) {
        const LanedMaps maps{.planes = 3, .height = 9, .width = 8, .lanes = lanes};
        const Shape out = pooled_shape(pool, {maps.planes, lanes, maps.height, maps.width});
        const std::vector<float> input = few_values(static_cast<std::size_t>(3) * 9 * 8 * lanes);
        const std::vector<float> gradient = few_values(out.size());
        std::vector<float> output(out.size());
        std::vector<PoolPlace> places(out.size());
        std::vector<float> input_gradient(input.size(), -1.0F);
        const MaxPool task(pool, maps);
        task.forward(input.data(), after_relu, output.data(), places.data());
        task.backward(gradient.data(), places.data(), input_gradient.data());
        const Plain plain = pool_plainly(pool, maps, input, gradient, after_relu);
        EXPECT_EQ(output, plain.output) << lanes << " lanes";
        EXPECT_EQ(input_gradient, plain.input_gradient) << lanes << " lanes";
      }
    }
  }
}

}  // namespace
}  // namespace convoy
