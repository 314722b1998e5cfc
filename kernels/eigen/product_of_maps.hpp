// The matrix product that products.cpp and products_avx2.cpp compile for different processors. The linker must not
// merge their functions, because a function compiled for AVX2 would then run on every processor. So the product has
// internal linkage, and the source for AVX2 gives Eigen's namespace another name.
#pragma once

// Eigen starts no threads, because callers split the work over their own threads.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include "kernels/host/matmul.hpp"

namespace convoy {

template <class T>
static void product_of_maps(const Matmul<T>& job) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using View = Eigen::Map<const Matrix>;
  const View a(job.a.data(), job.transpose_a ? job.k : job.m, job.transpose_a ? job.m : job.k);
  const View b(job.b.data(), job.transpose_b ? job.n : job.k, job.transpose_b ? job.k : job.n);
  Eigen::Map<Matrix> c(job.c.data(), job.m, job.n);
  if (job.beta == T{0}) c.setZero();
  if (job.transpose_a && job.transpose_b) c.noalias() += a.transpose() * b.transpose();
  if (job.transpose_a && !job.transpose_b) c.noalias() += a.transpose() * b;
  if (!job.transpose_a && job.transpose_b) c.noalias() += a * b.transpose();
  if (!job.transpose_a && !job.transpose_b) c.noalias() += a * b;
}

}  // namespace convoy
