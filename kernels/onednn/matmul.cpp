#include <omp.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#include "core/error.hpp"
#include "kernels/host/matmul.hpp"

namespace convoy {

void matmul(const Matmul<float>& job) {
  const dnnl_dim_t lda = job.transpose_a ? job.m : job.k;
  const dnnl_dim_t ldb = job.transpose_b ? job.k : job.n;
  const dnnl_status_t status = dnnl_sgemm(job.transpose_a ? 'T' : 'N', job.transpose_b ? 'T' : 'N', job.m, job.n, job.k,
                                          1.0F, job.a.data(), lda, job.b.data(), ldb, job.beta, job.c.data(), job.n);
  invariant(status == dnnl_success, "oneDNN computes matrix products of every size");
}

bool update_parameter(const UpdateStep& step, std::span<const float> gradient, float* values, float* const* moments) {
  constexpr std::size_t kSome = 16384;
  const std::size_t count = gradient.size();
  bool finite = true;
#pragma omp parallel for schedule(static) reduction(&& : finite) if (count > 4 * kSome)
  for (std::size_t first = 0; first < count; first += kSome) {
    finite = update_values(step, gradient.data(), values, moments, first, std::min(kSome, count - first)) && finite;
  }
  return finite;
}

void set_matmul_threads(int threads) { omp_set_num_threads(threads); }

}  // namespace convoy
