// Dense-layer maths on the host: row-major matrix products, and parameter updates.
#pragma once

#include <span>

#include "core/shard_state.hpp"

namespace convoy {

/// c (m x n) = op(a) (m x k) * op(b) (k x n) + beta * c, all row-major and contiguous. Where its flag is set, op
/// transposes: a is then stored as (k x m), b as (n x k).
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

/// Float products use oneDNN where it is built in, and Eigen elsewhere; double products always use Eigen.
void matmul(const Matmul<float>& job);
void matmul(const Matmul<double>& job);

/// Calls update_values() for all values of a parameter, and returns whether all results are finite.
bool update_parameter(const UpdateStep& step, std::span<const float> gradient, float* values, float* const* moments);
bool update_parameter(const UpdateStep& step, std::span<const double> gradient, double* values, double* const* moments);

/// Sets the number of threads that the functions above use when called from this thread.
void set_matmul_threads(int threads);

}  // namespace convoy
