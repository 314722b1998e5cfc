// The CUDA device's view of a GPU, in C++17 because CMake 3.25 passes no newer standard to nvcc. gpu.cu implements it
// with CUDA; the tests implement it with plain loops (tests/kernels/host_gpu.cpp).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/elements.hpp"

namespace convoy::cuda {

/// A GPU of this machine, as CUDA reports it.
struct GpuInfo {
  int number = 0;
  std::string name;
  std::string detail;         ///< memory, compute capability, versions of driver and runtime
  std::size_t memory = 0;     ///< bytes
  std::size_t available = 0;  ///< bytes that were free when the Gpu was created
  std::string unusable;       ///< the reason why this module cannot use it; empty if it can
};

/// c (m x n) = op(a) (m x k) * op(b) (k x n) + beta * c, row-major and contiguous, in device memory. Where its flag is
/// set, op transposes: a is then stored as (k x m), b as (n x k).
struct Product {
  int m;
  int n;
  int k;
  bool transpose_a;
  bool transpose_b;
  const float* a;
  const float* b;
  float* c;
  float beta;
};

/// The layout of maps whose channels are summed: (samples, channels, places).
struct Layout {
  int samples;
  int channels;
  int places;
};

/// Throws DeviceLost where `lost` is set, which means that this process cannot use the GPU again; throws Error
/// otherwise.
[[noreturn]] void raise(const std::string& what, bool lost);

/// Returns the GPUs of this machine. Raises where there is no driver, or none that this version of CUDA can use.
std::vector<GpuInfo> list_gpus();

/// A GPU. All functions but the writing ones, read and finish are asynchronous; the GPU executes everything in the
/// order of the calls. Functions raise where the GPU refuses or fails. No function waits longer than two minutes.
class Gpu {
 public:
  /// With `tf32`, matrix products may round their factors to 10 bits of mantissa, for speed.
  Gpu(int number, bool tf32);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const GpuInfo& info() const { return info_; }
  bool tf32() const { return tf32_; }

  /// Makes this GPU the calling thread's current device, which libraries require. Every function below calls it.
  void use() const;
  /// Returns memory filled with zeros; `what` names its purpose in the error where memory is short.
  void* allocate(std::size_t bytes, const std::string& what);
  void release(void* memory) noexcept;
  /// Returns a number in the host's memory, zero at first, that kernels may write. The host sees a kernel's write after
  /// the next wait for the GPU.
  int* allocate_number();
  void release_number(int* number) noexcept;
  /// Waits until the GPU is idle. Returns false where the GPU is lost: freeing resources might then wait for ever.
  bool settle() noexcept;
  void write_bytes(void* to, const void* from, std::size_t bytes);
  void write(float* to, const float* from, std::size_t count) { write_bytes(to, from, count * sizeof(float)); }
  void read(const float* from, float* to, std::size_t count);
  void finish();

  void multiply(const Product& product);
// Sums what each channel's elements add, in an order that depends on the layout alone. `first` takes the first sum of
// each channel; `second` takes the other one, where the summand has two.
#define CONVOY_DECLARE(Summand) void sum(Summand summand, const Layout& layout, float* first, float* second = nullptr);
  CONVOY_CUDA_SUMMANDS(CONVOY_DECLARE)
#undef CONVOY_DECLARE
// Computes element(i) for i = 0 .. count - 1, in any order.
#define CONVOY_DECLARE(Element) void run(Element element, int count);
  CONVOY_CUDA_ELEMENTS(CONVOY_DECLARE)
#undef CONVOY_DECLARE

  /// Returns the stream (cudaStream_t) that all work is submitted to, for libraries.
  void* stream() const;

 private:
  struct State;
  template <class Summand>
  void sum_up(Summand summand, const Layout& layout, float* first, float* second);

  GpuInfo info_;
  bool tf32_;
  std::unique_ptr<State> state_;
};

/// Device memory for `count` values, filled with zeros.
template <class T>
class Memory {
 public:
  Memory() = default;
  Memory(Gpu& gpu, std::size_t count, const std::string& what)
      : gpu_(&gpu), data_(static_cast<T*>(gpu.allocate(count * sizeof(T), what))) {}
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Memory() {
    if (data_ != nullptr) gpu_->release(data_);
  }
  T* data() const { return data_; }

 private:
  void swap(Memory& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(data_, other.data_);
  }

  Gpu* gpu_ = nullptr;
  T* data_ = nullptr;
};

/// A number in the host's memory that kernels may write.
class HostNumber {
 public:
  explicit HostNumber(Gpu& gpu) : gpu_(gpu), number_(gpu.allocate_number()) {}
  HostNumber(const HostNumber&) = delete;
  HostNumber& operator=(const HostNumber&) = delete;
  ~HostNumber() { gpu_.release_number(number_); }
  int* data() const { return number_; }
  int value() const { return *static_cast<const volatile int*>(number_); }

 private:
  Gpu& gpu_;
  int* number_;
};

}  // namespace convoy::cuda
