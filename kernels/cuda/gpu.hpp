// What the CUDA device asks of a GPU, in C++17: CMake 3.25 passes no newer standard to nvcc. cuda_gpu.cu asks CUDA;
// the tests have a GPU of plain loops instead (tests/kernels/host_gpu.cpp).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/elements.hpp"

namespace convoy::cuda {

struct GpuInfo {
  int number = 0;
  std::string name;
  std::string detail;         ///< memory, compute capability, versions of driver and runtime
  std::size_t memory = 0;     ///< bytes
  std::size_t available = 0;  ///< those of them that nobody had taken when the Gpu was made
  std::string unusable;       ///< why this module cannot use it; empty when it can
};

/// c (m x n) = op(a) (m x k) * op(b) (k x n) + beta * c, row-major without gaps, in device memory; op transposes where its
/// flag is set: a is then stored (k x m), b (n x k).
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

/// Throws DeviceLost (`lost`: the GPU cannot be used again by this process) or Error.
[[noreturn]] void raise(const std::string& what, bool lost);

/// The GPUs of this machine. Raises where there is no driver, or none that this version of CUDA can use.
std::vector<GpuInfo> list_gpus();

/// One GPU at work. All but write, read and finish return before the GPU has done what they ask; it does all in the order
/// in which it was asked. Raises where the GPU refuses or fails; waits no longer than two minutes for anything.
class Gpu {
 public:
  /// `tf32`: products may round their factors to 10 bits of mantissa, for speed.
  Gpu(int number, bool tf32);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const GpuInfo& info() const { return info_; }
  bool tf32() const { return tf32_; }

  /// Makes this GPU the calling thread's, as libraries want it; every function below does.
  void use() const;
  /// Memory filled with zeros; `what` names it where there is no room.
  void* allocate(std::size_t bytes, const std::string& what);
  void release(void* memory) noexcept;
  /// Waits until nothing runs any more. False where the GPU is lost: to give anything back might then wait for ever.
  bool settle() noexcept;
  void write(float* to, const float* from, std::size_t count);
  void read(const float* from, float* to, std::size_t count);
  void finish();

  void multiply(const Product& product);
  /// The sum of each channel of (samples, channels, places), in a fixed order.
  void sum_channels(const float* maps, int samples, int channels, int places, float* sums);
// element(i) for i = 0 .. count - 1, in any order.
#define CONVOY_DECLARE(Element) void run(Element element, int count);
  CONVOY_CUDA_ELEMENTS(CONVOY_DECLARE)
#undef CONVOY_DECLARE

  /// The stream (cudaStream_t) on which all this happens, for libraries that take one.
  void* stream() const;

 private:
  struct State;
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

}  // namespace convoy::cuda
