#include "kernels/eigen/products.hpp"

#include <fmt/format.h>

#include "kernels/eigen/product_of_maps.hpp"

namespace convoy {

#if defined(__x86_64__)
void eigen_product_avx2(const Matmul<float>& job);
void eigen_product_avx2(const Matmul<double>& job);
#endif

namespace {

bool has_avx2() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return has;
#else
  return false;
#endif
}

template <class T>
void product(const Matmul<T>& job) {
#if defined(__x86_64__)
  if (has_avx2()) return eigen_product_avx2(job);
#endif
  product_of_maps(job);
}

}  // namespace

void eigen_product(const Matmul<float>& job) { product(job); }
void eigen_product(const Matmul<double>& job) { product(job); }

std::string eigen_release() {
  return fmt::format("{}.{}.{}, {}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION,
                     has_avx2() ? "AVX2" : Eigen::SimdInstructionSetsInUse());
}

}  // namespace convoy
