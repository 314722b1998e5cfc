// CMake compiles this source for AVX2 and FMA, on x86-64 alone.
#define Eigen EigenWithAvx2
#include "kernels/eigen/product_of_maps.hpp"

namespace convoy {

void eigen_product_avx2(const Matmul<float>& job) { product_of_maps(job); }
void eigen_product_avx2(const Matmul<double>& job) { product_of_maps(job); }

}  // namespace convoy
