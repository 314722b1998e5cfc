// Compares the matrix products by Eigen, for any processor and as this processor computes them, with plain loops.

#include "kernels/eigen/products.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "core/random.hpp"

namespace convoy {
namespace {

template <class T>
std::vector<T> drawn(int count, Random& random) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = static_cast<T>(random.uniform() - 0.5);
  return values;
}

template <class T>
void expect_products(double tolerance) {
  Random random(7, 0);
  for (const auto& [m, n, k] : {std::array{1, 1, 1}, {3, 5, 7}, {24, 8, 33}, {1, 64, 9}, {50, 1, 25}, {31, 100, 150}}) {
    for (int options = 0; options < 8; ++options) {
      const bool transpose_a = (options & 1) != 0;
      const bool transpose_b = (options & 2) != 0;
      const std::vector<T> a = drawn<T>(m * k, random);
      const std::vector<T> b = drawn<T>(k * n, random);
      const std::vector<T> before = drawn<T>(m * n, random);
      const T beta = (options & 4) != 0 ? T{1} : T{0};
      std::vector<T> any = before;
      std::vector<T> own = before;
      Matmul<T> job{.m = m, .n = n, .k = k, .transpose_a = transpose_a, .transpose_b = transpose_b, .a = a, .b = b};
      job.beta = beta;
      job.c = any;
      eigen_product_anywhere(job);
      job.c = own;
      eigen_product(job);
      for (int i = 0; i < m * n; ++i) {
        double sum = beta * before[i];
        for (int j = 0; j < k; ++j) {
          const T left = transpose_a ? a[j * m + i / n] : a[i / n * k + j];
          const T right = transpose_b ? b[i % n * k + j] : b[j * n + i % n];
          sum += static_cast<double>(left) * right;
        }
        ASSERT_NEAR(any[i], sum, tolerance) << m << " x " << n << " x " << k << ", options " << options;
        ASSERT_NEAR(own[i], sum, tolerance) << m << " x " << n << " x " << k << ", options " << options;
      }
    }
  }
}

TEST(EigenProducts, OfFloatsAreThoseOfPlainLoops) { expect_products<float>(1e-5); }
TEST(EigenProducts, OfDoublesAreThoseOfPlainLoops) { expect_products<double>(1e-13); }

}  // namespace
}  // namespace convoy
