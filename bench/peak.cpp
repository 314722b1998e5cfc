#include "bench/peak.hpp"

#include <algorithm>
#include <atomic>

#include "core/stopwatch.hpp"
#include "core/thread_team.hpp"

namespace convoy {
namespace {

constexpr long kRounds = 3'000'000;
constexpr int kChains = 12;  // enough independent chains to hide the latency of one

// Each runs kRounds rounds of kChains vector multiply-adds; what it returns keeps the compiler from removing them. The
// build lets it contract products and sums in this file, as it may nowhere else.

#if defined(__x86_64__)
typedef float Vector16 __attribute__((vector_size(64)));
typedef float Vector8 __attribute__((vector_size(32)));

__attribute__((target("avx512f"), noinline)) float run_avx512(float seed) {
  Vector16 factor = Vector16{} + seed;
  Vector16 chains[kChains];
  for (Vector16& chain : chains) chain = factor;
  for (long round = 0; round < kRounds; ++round) {
    for (Vector16& chain : chains) chain = chain * factor + factor;
  }
  Vector16 sum = chains[0];
  for (int i = 1; i < kChains; ++i) sum += chains[i];
  return sum[0];
}

__attribute__((target("avx2,fma"), noinline)) float run_avx2(float seed) {
  Vector8 factor = Vector8{} + seed;
  Vector8 chains[kChains];
  for (Vector8& chain : chains) chain = factor;
  for (long round = 0; round < kRounds; ++round) {
    for (Vector8& chain : chains) chain = chain * factor + factor;
  }
  Vector8 sum = chains[0];
  for (int i = 1; i < kChains; ++i) sum += chains[i];
  return sum[0];
}
#endif

typedef float Vector4 __attribute__((vector_size(16)));

__attribute__((noinline)) float run_baseline(float seed) {
  Vector4 factor = Vector4{} + seed;
  Vector4 chains[kChains];
  for (Vector4& chain : chains) chain = factor;
  for (long round = 0; round < kRounds; ++round) {
    for (Vector4& chain : chains) chain = chain * factor + factor;
  }
  Vector4 sum = chains[0];
  for (int i = 1; i < kChains; ++i) sum += chains[i];
  return sum[0];
}

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
  for (int round = 0; round < 30; ++round) {
    const Stopwatch watch;
    team.run([&](int) { sink = loop.run(1e-6F); });
    const double flops = 2.0 * kRounds * kChains * loop.lanes * threads;
    best = std::max(best, flops / watch.seconds() / 1e9);
  }
  return best;
}

}  // namespace convoy
