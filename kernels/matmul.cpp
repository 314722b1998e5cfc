#include "kernels/matmul.hpp"

#include "kernels/matmul_eigen.hpp"

namespace convoy {

void matmul(const Matmul<double>& job) { eigen_matmul(job); }

}  // namespace convoy
