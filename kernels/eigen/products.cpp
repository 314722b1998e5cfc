#include "kernels/eigen/products.hpp"

#include <fmt/format.h>

#include "kernels/eigen/product_of_maps.hpp"

namespace convoy {

// Where the whole program is compiled for AVX2 or more, the product for any processor has these instructions, too.
#if defined(__x86_64__) && !defined(__AVX2__)

void eigen_product_avx2(const Matmul<float>& job);
void eigen_product_avx2(const Matmul<double>& job);

namespace {

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return has;
}

template <class T>
void product(const Matmul<T>& job) {
  if (has_avx2())
    eigen_product_avx2(job);
  else
    product_of_maps(job);
}

#else

namespace {

bool has_avx2() { return false; }

template <class T>
void product(const Matmul<T>& job) {
  product_of_maps(job);
}

#endif

}  // namespace

void eigen_product(const Matmul<float>& job) { product(job); }
void eigen_product(const Matmul<double>& job) { product(job); }

void eigen_product_anywhere(const Matmul<float>& job) { product_of_maps(job); }
void eigen_product_anywhere(const Matmul<double>& job) { product_of_maps(job); }

std::string eigen_release() {
  return fmt::format("{}.{}.{}, {}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION,
                     has_avx2() ? "AVX2" : Eigen::SimdInstructionSetsInUse());
}

}  // namespace convoy
