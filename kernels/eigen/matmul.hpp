// Matrix products by Eigen, for any number type.
#pragma once

#include <Eigen/Core>

#include "kernels/host/matmul.hpp"

namespace convoy {

template <class T>
void eigen_matmul(const Matmul<T>& job) {
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
