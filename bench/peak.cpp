#include "bench/peak.hpp"

#include <algorithm>
#include <atomic>

#include "core/stopwatch.hpp"
#include "core/thread_team.hpp"

namespace convoy {
namespace {

constexpr long kRounds = 500'000;
constexpr int kChains = 12;  // enough independent chains to hide the latency of a multiply-add

/// Computes kRounds rounds of kChains vector multiply-adds and returns their sum, so that the compiler keeps them. Only
/// in this file may the compiler contract products and sums. The function is inlined into functions for wider vectors.
template <class Vector>
[[gnu::always_inline]] inline float run_chains(float seed) {
  const Vector factor = Vector{} + seed;
  Vector chains[kChains];
  for (Vector& chain : chains) chain = factor;
  for (long round = 0; round < kRounds; ++round) {
    for (Vector& chain : chains) chain = chain * factor + factor;
  }
  Vector sum = chains[0];
  for (int i = 1; i < kChains; ++i) sum += chains[i];
  return sum[0];
}

#if defined(__x86_64__)
typedef float Vector16 __attribute__((vector_size(64)));
typedef float Vector8 __attribute__((vector_size(32)));

[[gnu::target("avx512f"), gnu::noinline]] float run_avx512(float seed) { return run_chains<Vector16>(seed); }

[[gnu::target("avx2,fma"), gnu::noinline]] float run_avx2(float seed) { return run_chains<Vector8>(seed); }
#endif

typedef float Vector4 __attribute__((vector_size(16)));

[[gnu::noinline]] float run_baseline(float seed) { return run_chains<Vector4>(seed); }

struct Loop {
  float (*run)(float);
  int lanes;
};

Loop widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {run_avx512, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {run_avx2, 8};
#endif
  return {run_baseline, 4};
}

}  // namespace

double measure_fma_peak(int threads) {
  const Loop loop = widest();
  ThreadTeam team(threads);
  std::atomic<float> sink{0.0F};
  double best = 0.0;
  for (int round = 0; round < 200; ++round) {
    const Stopwatch watch;
    team.run([&](int) { sink = loop.run(1e-6F); });
    const double flops = 2.0 * kRounds * kChains * loop.lanes * threads;
    best = std::max(best, flops / watch.seconds() / 1e9);
  }
  return best;
}

}  // namespace convoy
