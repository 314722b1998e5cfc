// A GPU of plain loops, which runs the code of CUDA's kernels element by element on the host. With it, the CUDA device
// computes every case on a machine without a GPU. Only the launches, copies and libraries of cuda_gpu.cu stay untested.

#include "tests/kernels/host_gpu.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/host/matmul.hpp"

namespace convoy {

HostGpuLimits& host_gpu_limits() {
  static HostGpuLimits limits;
  return limits;
}

namespace cuda {

struct Gpu::State {
  std::size_t allocated = 0;
  std::map<void*, std::vector<char>> memory;
  std::map<int*, std::unique_ptr<int>> numbers;
};

std::vector<GpuInfo> list_gpus() {
  GpuInfo gpu;
  gpu.name = "loops on the host";
  gpu.detail = "for tests";
  gpu.memory = host_gpu_limits().memory;
  gpu.available = host_gpu_limits().room;
  return {gpu};
}

Gpu::Gpu(int, bool tf32) : info_(list_gpus().front()), tf32_(tf32), state_(std::make_unique<State>()) {}
Gpu::~Gpu() = default;

void Gpu::use() const {}

void* Gpu::allocate(std::size_t bytes, const std::string& what) {
  if (state_->allocated + bytes > host_gpu_limits().room) raise("not enough memory for " + what, false);
  state_->allocated += bytes;
  std::vector<char> block(std::max<std::size_t>(bytes, 1));
  void* place = block.data();
  state_->memory.emplace(place, std::move(block));
  return place;
}

void Gpu::release(void* memory) noexcept { state_->memory.erase(memory); }
int* Gpu::allocate_number() {
  auto number = std::make_unique<int>(0);
  int* place = number.get();
  state_->numbers.emplace(place, std::move(number));
  return place;
}
void Gpu::release_number(int* number) noexcept { state_->numbers.erase(number); }
bool Gpu::settle() noexcept { return !host_gpu_limits().lost; }
void Gpu::write_bytes(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
void Gpu::read(const float* from, float* to, std::size_t count) { std::copy_n(from, count, to); }

void Gpu::finish() {
  if (host_gpu_limits().lost) raise("CUDA: computing: unspecified launch failure", true);
}

void Gpu::multiply(const Product& p) {
  const auto m = static_cast<std::size_t>(p.m);
  const auto n = static_cast<std::size_t>(p.n);
  const auto k = static_cast<std::size_t>(p.k);
  matmul(Matmul<float>{.m = p.m,
                       .n = p.n,
                       .k = p.k,
                       .transpose_a = p.transpose_a,
                       .transpose_b = p.transpose_b,
                       .a = {p.a, m * k},
                       .b = {p.b, k * n},
                       .c = {p.c, m * n},
                       .beta = p.beta});
}

template <class Summand>
void Gpu::sum_up(Summand summand, const Layout& layout, float* first, float* second) {
  float* const totals[] = {first, second};
  for (int c = 0; c < layout.channels; ++c) {
    float sums[Summand::kSums] = {};
    for (int n = 0; n < layout.samples; ++n) {
      for (int p = 0; p < layout.places; ++p) summand((n * layout.channels + c) * layout.places + p, c, sums);
    }
    for (int k = 0; k < Summand::kSums; ++k) totals[k][c] = sums[k];
  }
}

#define CONVOY_DEFINE(Summand)                                                        \
  void Gpu::sum(Summand summand, const Layout& layout, float* first, float* second) { \
    sum_up(summand, layout, first, second);                                           \
  }
CONVOY_CUDA_SUMMANDS(CONVOY_DEFINE)
#undef CONVOY_DEFINE

#define CONVOY_DEFINE(Element)                       \
  void Gpu::run(Element element, int count) {        \
    for (int i = count - 1; i >= 0; --i) element(i); \
  }
CONVOY_CUDA_ELEMENTS(CONVOY_DEFINE)
#undef CONVOY_DEFINE

void* Gpu::stream() const { return nullptr; }

}  // namespace cuda
}  // namespace convoy
