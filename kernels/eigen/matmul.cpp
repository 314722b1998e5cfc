#include "kernels/eigen/products.hpp"

namespace convoy {

void matmul(const Matmul<float>& job) { eigen_product(job); }

bool update_parameter(const UpdateStep& step, std::span<const float> gradient, float* values, float* const* moments) {
  return update_values(step, gradient.data(), values, moments, 0, gradient.size());
}

void set_matmul_threads(int) {}  // Eigen's products run on the calling thread

}  // namespace convoy
