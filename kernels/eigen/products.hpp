// Matrix products by Eigen.
#pragma once

#include <string>

#include "kernels/host/matmul.hpp"

namespace convoy {

/// Computes a product on the calling thread. On x86-64 with AVX2 and FMA, vectors are twice as long as the vectors that
/// every x86-64 has.
void eigen_product(const Matmul<float>& job);
void eigen_product(const Matmul<double>& job);

/// Computes a product with the instructions that every processor has; for tests.
void eigen_product_anywhere(const Matmul<float>& job);
void eigen_product_anywhere(const Matmul<double>& job);

/// Returns the release of Eigen and the vector instructions of the products, such as "3.4.0, AVX2".
std::string eigen_release();

}  // namespace convoy
