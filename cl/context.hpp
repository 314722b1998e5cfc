// One OpenCL device at work: memory, programs, launches. Every wait ends: a device that does not answer is DeviceLost.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>

#include "cl/opencl.hpp"

namespace convoy {

class ClContext;

/// Memory of a device, or an image that shows a buffer's; released with the object.
class ClBuffer {
 public:
  ClBuffer() = default;
  ClBuffer(ClContext& context, cl_mem memory, std::size_t bytes) : context_(&context), memory_(memory), bytes_(bytes) {}
  ClBuffer(ClBuffer&& other) noexcept { swap(other); }
  ClBuffer& operator=(ClBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~ClBuffer();

  cl_mem memory() const { return memory_; }
  std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  void swap(ClBuffer& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
  }

  ClContext* context_ = nullptr;
  cl_mem memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Work-items in three dimensions.
using ClRange = std::array<std::size_t, 3>;

/// What is known of a kernel's speed.
struct ClTiming {
  std::string kernel;
  double seconds_per_item = 0.0;  ///< as last measured; 0 before the first launch
};

/// A kernel of a program.
struct ClKernel {
  cl_kernel handle = nullptr;
  std::size_t largest_group = 1;     ///< work-items that one work-group may have
  std::shared_ptr<ClTiming> timing;  ///< shared by all copies

  /// The same kernel for launches whose work-items have a cost of their own.
  ClKernel timed_apart() const {
    return {handle, largest_group, std::make_shared<ClTiming>(ClTiming{.kernel = timing->kernel})};
  }
};

/// How convolutions are computed: directly, by kernels of our own; by products of matrices (CLBlast); or, pass by pass,
/// by what is faster.
enum class ClConvolutions { direct, products, faster };

struct ClSettings {
  std::optional<bool> processor;      ///< take the device for a processor, or for a GPU; unset: what it says it is
  std::optional<bool> shares_memory;  ///< take its memory for the host's, or not; unset: what it says
  std::size_t group = 0;              ///< work-items of a work-group; 0: one on processors, up to 64 elsewhere
  ClConvolutions convolutions = ClConvolutions::faster;
  std::optional<bool> images;  ///< direct convolutions read images, or buffers; unset: what is faster on a GPU
  bool half = false;           ///< convolutions read maps and weights in 16 bits
  std::chrono::duration<double> patience{30.0};     ///< with a device of which nothing ends
  std::chrono::duration<double> launch_time{0.03};  ///< that one launch should take at most: phones reset longer ones
};

class ClContext {
 public:
  ClContext(const ClDeviceId& device, const ClSettings& settings);
  ~ClContext();
  ClContext(const ClContext&) = delete;
  ClContext& operator=(const ClContext&) = delete;

  const ClDeviceId& device() const { return device_; }
  /// Platform, device and driver: what is found out about one holds for its like.
  std::string identity() const;
  bool is_processor() const { return processor_; }
  /// Whether the device says that it has fused multiply-add.
  bool has_fma() const { return fma_; }
  const ClSettings& settings() const { return settings_; }

  /// Bytes of all buffers that there are.
  std::size_t allocated() const { return allocated_; }
  /// New memory, filled with zeros. Throws Error naming `what` and both sizes where the device has no room.
  ClBuffer allocate(std::size_t bytes, const std::string& what);
  /// Whether buffers can be shown as images.
  bool has_images() const { return most_texels_ > 0; }
  /// The buffer as an image of texels of four floats, or of four 16-bit ones. Throws Error where it is too large for one.
  ClBuffer image_of(const ClBuffer& buffer, bool half, const std::string& what);
  /// Both begin at element `first` of the buffer, and wait for all that was enqueued before.
  void write(const ClBuffer& to, std::size_t first, std::span<const float> values);
  void read(const ClBuffer& from, std::size_t first, std::span<float> values);

  /// Kernels of the program, in the order of `names`; from the cache on disk where this device, driver, source and
  /// options were built before. Throws Error with the compiler's own words.
  std::vector<ClKernel> build(const std::string& source, const std::string& options,
                              const std::vector<std::string>& names);

  /// Enqueues a kernel over a range, in as many launches as keep each within settings.launch_time. Arguments are
  /// buffers, or numbers of the kernel's own types. Kernels take the range's end themselves: a work-group may reach
  /// beyond it.
  template <class... Args>
  void launch(const ClKernel& kernel, const ClRange& range, const Args&... args) {
    launch_from(kernel, 0, range, args...);
  }
  /// The same where the third index begins at `third`.
  template <class... Args>
  void launch_from(const ClKernel& kernel, std::size_t third, const ClRange& range, const Args&... args) {
    cl_uint index = 0;
    (set_argument(kernel, index++, args), ...);
    enqueue(kernel, {0, 0, third}, range);
  }

  /// Enqueues what another library computes: `command` gets the queue, and a place for its last event.
  void enqueue_other(const std::string& what, const std::function<void(cl_command_queue*, cl_event*)>& command);

  /// Waits until all that was enqueued has ended. Throws DeviceLost when nothing more of it ends for settings.patience,
  /// or when the device failed.
  void finish();

 private:
  struct Pending {
    std::shared_ptr<ClTiming> timing;  ///< null for other commands
    double items;
    cl_event event;

    std::string what() const { return timing != nullptr ? timing->kernel : "a copy"; }
  };

  void set_argument(const ClKernel& kernel, cl_uint index, const ClBuffer& buffer) {
    const cl_mem memory = buffer.memory();
    set_argument(kernel, index, sizeof(memory), &memory);
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void set_argument(const ClKernel& kernel, cl_uint index, T value) {
    set_argument(kernel, index, sizeof(value), &value);
  }
  void set_argument(const ClKernel& kernel, cl_uint index, std::size_t size, const void* value);

  /// Memory of a device that shares it with the host, for the host: no driver copies it. Ends with give_back.
  void* borrow(const ClBuffer& buffer, std::size_t offset, std::size_t bytes, cl_map_flags why);
  void give_back(const ClBuffer& buffer, void* memory);
  void fill_with_zeros(const ClBuffer& buffer);
  std::size_t group_of(const ClKernel& kernel, const ClRange& range) const;
  void enqueue(const ClKernel& kernel, ClRange first, const ClRange& range);
  void enqueue_pieces(const ClKernel& kernel, const ClRange& first, const ClRange& range);
  void enqueue_piece(const ClKernel& kernel, const ClRange& first, const ClRange& range);
  void wait_for_last();
  void collect(const Pending& pending);
  cl_int status_of(const Pending& pending);
  [[noreturn]] void lose(const std::string& why);
  /// For commands to the device: what fails is lost.
  void check(cl_int code, const std::string& what);
  cl_program program_of(const std::string& source, const std::string& options);
  cl_program cached_program(const std::string& key, const std::string& options);
  void keep(cl_program program, const std::string& key) const;

  friend class ClBuffer;

  ClDeviceId device_;
  ClSettings settings_;
  bool processor_ = false;
  bool fma_ = false;
  bool shares_memory_ = false;  ///< with the host
  std::size_t largest_buffer_ = 0;
  std::size_t most_texels_ = 0;  ///< of an image
  std::size_t allocated_ = 0;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::vector<cl_program> programs_;
  std::vector<cl_kernel> kernels_;
  std::vector<Pending> pending_;
  bool lost_ = false;  ///< the device hangs: to release anything might hang too
};

}  // namespace convoy
