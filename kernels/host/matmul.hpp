// Dense-layer maths on the host's CPU: matrix products, row-major, and updates.
#pragma once

#include <span>

#include "core/shard_state.hpp"

namespace convoy {

/// c (m x n) = op(a) (m x k) * op(b) (k x n) + beta * c, all row-major without gaps. op transposes where its flag is
/// set: a is then stored (k x m), b (n x k).
template <class T>
struct Matmul {
  int m = 0;
  int n = 0;
  int k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  std::span<const T> a;
  std::span<const T> b;
  std::span<T> c;
  T beta = 0;  ///< 0 or 1
};

/// Float products use oneDNN where it is built in, Eigen elsewhere; double always Eigen.
void matmul(const Matmul<float>& job);
void matmul(const Matmul<double>& job);

/// update_values() of all values.
void update_parameter(const UpdateStep& step, std::span<const float> gradient, float* values, float* const* moments);
void update_parameter(const UpdateStep& step, std::span<const double> gradient, double* values, double* const* moments);

/// Number of threads that the above called from this thread use.
void set_matmul_threads(int threads);

}  // namespace convoy
