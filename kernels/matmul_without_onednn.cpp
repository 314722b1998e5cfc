#include "kernels/matmul_eigen.hpp"

namespace convoy {

void matmul(const Matmul<float>& job) { eigen_matmul(job); }

void set_matmul_threads(int) {}  // Eigen's products run on the calling thread

}  // namespace convoy
