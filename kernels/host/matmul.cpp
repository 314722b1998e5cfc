#include "kernels/host/matmul.hpp"

#include "kernels/eigen/products.hpp"

namespace convoy {

void matmul(const Matmul<double>& job) { eigen_product(job); }

bool update_parameter(const UpdateStep& step, std::span<const double> gradient, double* values,
                      double* const* moments) {
  return update_values(step, gradient.data(), values, moments, 0, gradient.size());
}

}  // namespace convoy
