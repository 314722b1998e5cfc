#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "kernels/cuda/gpu.hpp"

namespace convoy::cuda {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;  // bytes per copy through page-locked memory
constexpr std::chrono::seconds kPatience{120};
constexpr int kThreads = 256;
constexpr int kPart = 16384;  // values of a channel that one block sums: enough blocks fill the GPU
// __CUDA_ARCH_LIST__ has 750 for compute capability 7.5
constexpr int kLeastCapability = std::min({__CUDA_ARCH_LIST__}) / 10;

std::string versions() {
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const auto text = [](int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  };
  return "CUDA " + text(runtime) + ", driver for " + text(driver);
}

std::string capability(int number) { return std::to_string(number / 10) + "." + std::to_string(number % 10); }

std::string describe(cudaError_t code) {
  return std::string(cudaGetErrorString(code)) + " (" + cudaGetErrorName(code) + ")";
}

/// Returns whether the error broke the process's CUDA context, so that every later call fails as well.
bool is_sticky(cudaError_t code) {
  switch (static_cast<int>(code)) {
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case 226:  // cudaErrorContained, which older headers lack
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorUnknown: return true;
    default: return false;
  }
}

void check(cudaError_t code, const std::string& what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // clears the error, which a later launch would report otherwise
  raise("CUDA: " + what + ": " + describe(code), is_sticky(code));
}

void check(cublasStatus_t code, const std::string& what) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  raise("cuBLAS: " + what + ": " + cublasGetStatusString(code), code == CUBLAS_STATUS_EXECUTION_FAILED);
}

template <class Element>
__global__ void for_each(Element element, int count) {
  const int step = static_cast<int>(gridDim.x * blockDim.x);
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    element(static_cast<int>(i));
  }
}

// Block (c, part) sums a part of channel c. Each thread sums every kThreads-th element of it, then the threads' sums
// are added in pairs, so that the order is always the same. `first` and `second` get a sum for each part and channel.
template <class Summand>
__global__ void sum_parts(Summand summand, Layout layout, int part_size, float* first, float* second) {
  __shared__ float parts[Summand::kSums][kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int channel = static_cast<int>(blockIdx.x);
  const int begin = static_cast<int>(blockIdx.y) * part_size;
  const int end = smaller(begin + part_size, layout.samples * layout.places);
  float sums[Summand::kSums] = {};
  for (int i = begin + thread; i < end; i += kThreads) {
    summand((i / layout.places * layout.channels + channel) * layout.places + i % layout.places, channel, sums);
  }
  for (int k = 0; k < Summand::kSums; ++k) parts[k][thread] = sums[k];
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) {
      for (int k = 0; k < Summand::kSums; ++k) parts[k][thread] += parts[k][thread + half];
    }
    __syncthreads();
  }
  if (thread != 0) return;
  first[blockIdx.y * gridDim.x + blockIdx.x] = parts[0][0];
  if (Summand::kSums > 1) second[blockIdx.y * gridDim.x + blockIdx.x] = parts[Summand::kSums - 1][0];
}

/// Adds the sums of `parts` parts.
__global__ void add_parts(const float* sums, int parts, int channels, float* total) {
  const int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (channel >= channels) return;
  float sum = 0.0F;
  for (int part = 0; part < parts; ++part) sum += sums[part * channels + channel];
  total[channel] = sum;
}

}  // namespace

std::vector<GpuInfo> list_gpus() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) {
    cudaGetLastError();
    raise("CUDA finds no usable GPU: " + describe(code) + "; check that NVIDIA's driver is installed", false);
  }
  std::vector<GpuInfo> gpus;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, i), "cudaGetDeviceProperties");
    const auto gib = static_cast<double>(properties.totalGlobalMem) / static_cast<double>(1 << 30);
    GpuInfo gpu;
    gpu.number = i;
    gpu.name = properties.name;
    gpu.memory = properties.totalGlobalMem;
    const int has = 10 * properties.major + properties.minor;
    gpu.detail =
        std::to_string(static_cast<int>(gib + 0.5)) + " GiB, compute capability " + capability(has) + ", " + versions();
    if (has < kLeastCapability) {
      gpu.unusable = "its compute capability is " + capability(has) + ", but this program was built for " +
                     capability(kLeastCapability) + " and higher";
    }
    gpus.push_back(gpu);
  }
  return gpus;
}

struct Gpu::State {
  cudaStream_t compute = nullptr;
  cudaStream_t copy = nullptr;
  cudaEvent_t computed = nullptr;    ///< the copy stream waits for this event
  cudaEvent_t halves[2] = {};        ///< the last copy through each half of `staging`
  char* staging = nullptr;           ///< page-locked memory for two pieces
  cublasHandle_t blas = nullptr;     ///< created last, so that nothing runs before it exists
  float* parts = nullptr;            ///< for sums of channels, which are made in parts
  std::size_t part_count = 0;
  int number = 0;
  bool lost = false;

  float* numbers(Gpu& gpu, std::size_t count);

  ~State() {
    if (blas != nullptr && !settle()) return;
    if (blas != nullptr) cublasDestroy(blas);
    for (cudaEvent_t event : {computed, halves[0], halves[1]}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    if (staging != nullptr) cudaFreeHost(staging);
    if (parts != nullptr) cudaFree(parts);
    for (cudaStream_t stream : {compute, copy}) {
      if (stream != nullptr) cudaStreamDestroy(stream);
    }
  }

  void wait(cudaEvent_t event, const std::string& what) {
    const auto begin = std::chrono::steady_clock::now();
    while (true) {
      const cudaError_t code = cudaEventQuery(event);
      if (code == cudaSuccess) return;
      if (code != cudaErrorNotReady) {
        lost = true;
        raise("CUDA: " + what + ": " + describe(code), true);
      }
      const auto waited = std::chrono::steady_clock::now() - begin;
      if (waited > kPatience) {
        lost = true;
        raise("CUDA: " + what + ": no work was completed for two minutes; the GPU hangs", true);
      }
      if (waited > std::chrono::milliseconds(2)) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  /// Makes later copies wait for all computation that has been submitted so far.
  void copies_follow_computing() {
    check(cudaEventRecord(computed, compute), "cudaEventRecord");
    check(cudaStreamWaitEvent(copy, computed, 0), "cudaStreamWaitEvent");
  }

  bool settle() noexcept {
    if (lost) return false;
    try {
      check(cudaSetDevice(number), "cudaSetDevice");
      copies_follow_computing();
      check(cudaEventRecord(halves[0], copy), "cudaEventRecord");
      wait(halves[0], "the submitted work");
    } catch (const std::exception&) {
      lost = true;
    }
    return !lost;
  }
};

Gpu::Gpu(int number, bool tf32) : tf32_(tf32), state_(std::make_unique<State>()) {
  const std::vector<GpuInfo> gpus = list_gpus();
  if (number < 0 || static_cast<std::size_t>(number) >= gpus.size()) {
    raise("there is no GPU " + std::to_string(number) + "; CUDA finds " + std::to_string(gpus.size()) +
              ", numbered from 0",
          false);
  }
  info_ = gpus[number];
  if (!info_.unusable.empty()) raise(info_.name + " cannot be used: " + info_.unusable, false);
  State& s = *state_;
  s.number = number;
  check(cudaSetDevice(number), "cudaSetDevice");
  check(cudaStreamCreateWithFlags(&s.compute, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaStreamCreateWithFlags(&s.copy, cudaStreamNonBlocking), "cudaStreamCreate");
  for (cudaEvent_t* event : {&s.computed, &s.halves[0], &s.halves[1]}) {
    check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate");
  }
  check(cudaHostAlloc(reinterpret_cast<void**>(&s.staging), 2 * kPiece, cudaHostAllocDefault), "page-locked memory");
  check(cublasCreate(&s.blas), "cublasCreate");
  check(cublasSetStream(s.blas, s.compute), "cublasSetStream");
  check(cublasSetMathMode(s.blas, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH), "cublasSetMathMode");
  std::size_t total = 0;
  check(cudaMemGetInfo(&info_.available, &total), "cudaMemGetInfo");
}

Gpu::~Gpu() = default;

void Gpu::use() const { check(cudaSetDevice(info_.number), "cudaSetDevice"); }

void* Gpu::allocate(std::size_t bytes, const std::string& what) {
  use();
  void* memory = nullptr;
  const cudaError_t code = cudaMalloc(&memory, std::max<std::size_t>(bytes, 1));
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t available = 0;
    std::size_t total = 0;
    cudaMemGetInfo(&available, &total);
    raise(info_.name + ": not enough memory for " + what + " (" + std::to_string(bytes >> 20) + " MiB; " +
              std::to_string(available >> 20) + " of " + std::to_string(total >> 20) +
              " MiB are free); give this slave fewer filters with --memory, or make the batch smaller",
          false);
  }
  check(code, "memory for " + what);
  check(cudaMemsetAsync(memory, 0, std::max<std::size_t>(bytes, 1), state_->compute), "filling memory");
  return memory;
}

void Gpu::release(void* memory) noexcept {
  if (state_->settle()) cudaFree(memory);
}

int* Gpu::allocate_number() {
  use();
  int* number = nullptr;
  // With unified addressing, which every supported GPU has, the host's address is valid on the GPU.
  check(cudaHostAlloc(reinterpret_cast<void**>(&number), sizeof(int), cudaHostAllocMapped), "page-locked memory");
  *number = 0;
  return number;
}

void Gpu::release_number(int* number) noexcept {
  if (state_->settle()) cudaFreeHost(number);
}

bool Gpu::settle() noexcept { return state_->settle(); }

void Gpu::write_bytes(void* to, const void* from, std::size_t bytes) {
  use();
  State& s = *state_;
  s.copies_follow_computing();
  int half = 0;
  for (std::size_t at = 0; at < bytes; at += kPiece, half = 1 - half) {
    const std::size_t piece = std::min(kPiece, bytes - at);
    s.wait(s.halves[half], "a copy to the GPU");
    char* through = s.staging + half * kPiece;
    std::memcpy(through, static_cast<const char*>(from) + at, piece);
    check(cudaMemcpyAsync(static_cast<char*>(to) + at, through, piece, cudaMemcpyHostToDevice, s.copy), "a copy");
    check(cudaEventRecord(s.halves[half], s.copy), "cudaEventRecord");
  }
  for (cudaEvent_t copied : s.halves) check(cudaStreamWaitEvent(s.compute, copied, 0), "cudaStreamWaitEvent");
}

void Gpu::read(const float* from, float* to, std::size_t count) {
  use();
  State& s = *state_;
  s.copies_follow_computing();
  const std::size_t bytes = count * sizeof(float);
  const std::size_t pieces = (bytes + kPiece - 1) / kPiece;
  // One piece is copied out of page-locked memory while the next piece arrives there.
  for (std::size_t p = 0; p <= pieces; ++p) {
    if (p < pieces) {
      const std::size_t at = p * kPiece;
      s.wait(s.halves[p % 2], "a copy from the GPU");
      check(cudaMemcpyAsync(s.staging + p % 2 * kPiece, reinterpret_cast<const char*>(from) + at,
                            std::min(kPiece, bytes - at), cudaMemcpyDeviceToHost, s.copy),
            "a copy");
      check(cudaEventRecord(s.halves[p % 2], s.copy), "cudaEventRecord");
    }
    if (p == 0) continue;
    const std::size_t at = (p - 1) * kPiece;
    s.wait(s.halves[(p - 1) % 2], "a copy from the GPU");
    std::memcpy(reinterpret_cast<char*>(to) + at, s.staging + (p - 1) % 2 * kPiece, std::min(kPiece, bytes - at));
  }
}

void Gpu::finish() {
  use();
  State& s = *state_;
  check(cudaEventRecord(s.computed, s.compute), "cudaEventRecord");
  s.wait(s.computed, "computing");
}

void Gpu::multiply(const Product& p) {
  use();
  // cuBLAS is column-major: it sees every matrix transposed and computes c' = op(b)' op(a)'.
  const float alpha = 1.0F;
  check(cublasSgemm(state_->blas, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                    p.n, p.m, p.k, &alpha, p.b, p.transpose_b ? p.k : p.n, p.a, p.transpose_a ? p.m : p.k, &p.beta, p.c,
                    p.n),
        "a matrix product");
}

/// Returns memory for `count` numbers, valid until a call asks for more.
float* Gpu::State::numbers(Gpu& gpu, std::size_t count) {
  if (count > part_count) {
    gpu.finish();
    cudaFree(parts);
    parts = nullptr;
    part_count = 0;
    parts = static_cast<float*>(gpu.allocate(count * sizeof(float), "sums of channels"));
    part_count = count;
  }
  return parts;
}

template <class Summand>
void Gpu::sum_up(Summand summand, const Layout& layout, float* first, float* second) {
  use();
  const int values = layout.samples * layout.places;
  const int parts = std::max(1, (values + kPart - 1) / kPart);
  const dim3 blocks(static_cast<unsigned>(layout.channels), static_cast<unsigned>(parts));
  float* const totals[] = {first, second};
  float* sums[] = {first, second};
  if (parts > 1) {
    const auto count = static_cast<std::size_t>(parts) * static_cast<std::size_t>(layout.channels);
    sums[0] = state_->numbers(*this, 2 * count);
    sums[1] = sums[0] + count;
  }
  sum_parts<<<blocks, kThreads, 0, state_->compute>>>(summand, layout, kPart, sums[0], sums[1]);
  check(cudaGetLastError(), "sums of channels");
  for (int k = 0; parts > 1 && k < Summand::kSums; ++k) {
    const auto grid = static_cast<unsigned>((layout.channels + kThreads - 1) / kThreads);
    add_parts<<<grid, kThreads, 0, state_->compute>>>(sums[k], parts, layout.channels, totals[k]);
    check(cudaGetLastError(), "sums of channels");
  }
}

#define CONVOY_DEFINE(Summand)                                                                  \
  void Gpu::sum(Summand summand, const Layout& layout, float* first, float* second) {           \
    sum_up(summand, layout, first, second);                                                     \
  }
CONVOY_CUDA_SUMMANDS(CONVOY_DEFINE)
#undef CONVOY_DEFINE

// A grid has at most a million blocks; the threads of for_each loop over the remaining elements.
#define CONVOY_DEFINE(Element)                                                                          \
  void Gpu::run(Element element, int count) {                                                           \
    use();                                                                                              \
    const int blocks = std::min((count + kThreads - 1) / kThreads, 1 << 20);                            \
    for_each<<<static_cast<unsigned>(blocks), kThreads, 0, state_->compute>>>(element, count);          \
    check(cudaGetLastError(), #Element);                                                                \
  }
CONVOY_CUDA_ELEMENTS(CONVOY_DEFINE)
#undef CONVOY_DEFINE

void* Gpu::stream() const { return state_->compute; }

}  // namespace convoy::cuda
