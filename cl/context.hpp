// Manages one OpenCL device: its memory, its programs and its launches. Every wait has a deadline; a device that does
// not answer is lost (DeviceLost).
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>

#include "cl/opencl.hpp"

namespace convoy {

class ClContext;

/// Memory of a device, or an image that views a buffer. The object releases it.
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

/// Numbers of work-items in three dimensions.
using ClRange = std::array<std::size_t, 3>;

/// What is known of a kernel's speed: the time of one launch, from which the times of others are predicted.
struct ClTiming {
  std::string kernel;
  double items = 0.0;    ///< work-items of this launch; 0 before the first one
  double seconds = 0.0;  ///< the time of this launch

  /// Returns the time that a launch takes at most. Fewer work-items may take as long, because a GPU computes them at
  /// the same time.
  double predict(double count) const { return seconds * std::max(1.0, count / items); }
  /// Takes note of a launch. Short launches tell little of long ones, because most of their time is that of starting,
  /// so they replace only a launch that took longer than `longest`, in seconds.
  void learn(double count, double taken, double longest) {
    if (2.0 * count < items && seconds <= longest) return;
    items = count;
    seconds = taken;
  }
};

/// A kernel of a program.
struct ClKernel {
  cl_kernel handle = nullptr;
  std::size_t largest_group = 1;     ///< the most work-items of a work-group
  std::shared_ptr<ClTiming> timing;  ///< shared by all copies

  /// Returns the same kernel with a timing of its own, for launches whose work-items have a different cost.
  ClKernel timed_apart() const {
    return {handle, largest_group, std::make_shared<ClTiming>(ClTiming{.kernel = timing->kernel})};
  }
};

/// What a device was asked to do since its context was made.
struct ClCounts {
  std::size_t launches = 0;       ///< launches of kernels; a range that is cut counts once for each piece
  std::size_t groups = 0;         ///< work-groups of all launches
  std::size_t waits = 0;          ///< times that the host waited for the device
  std::size_t built = 0;          ///< programs compiled from source
  std::size_t loaded = 0;         ///< programs compiled in an earlier run
  std::size_t bytes_read = 0;     ///< copied to the host
  std::size_t bytes_written = 0;  ///< copied from the host
};

/// The methods of convolution: Convoy's own direct kernels; matrix products by CLBlast; or, pass by pass, the faster of
/// the two.
enum class ClConvolutions { direct, products, faster };

/// Settings of an OpenCL device; tests override what the driver reports.
struct ClSettings {
  std::optional<bool> processor;      ///< treat the device as a processor, or as a GPU; unset: as the driver reports it
  std::optional<bool> shares_memory;  ///< treat its memory as the host's, or not; unset: as the driver reports it
  /// Work-items of a work-group, in one dimension; 0: one on processors, elsewhere up to 64 in three dimensions.
  std::size_t group = 0;
  ClConvolutions convolutions = ClConvolutions::faster;
  std::optional<bool> images;  ///< direct convolutions read images, or buffers; unset: the faster of them on a GPU
  bool half = false;           ///< convolutions read maps and weights in 16 bits
  std::chrono::duration<double> patience{30.0};  ///< a device that completes nothing for so long is lost; in seconds
  /// Target for the longest launch, in seconds, because phones reset the GPU on longer ones.
  std::chrono::duration<double> launch_time{0.03};
};

/// Owns a device's OpenCL context and queue, and executes commands in the order of the calls.
class ClContext {
 public:
  ClContext(const ClDeviceId& device, const ClSettings& settings);
  ~ClContext();
  ClContext(const ClContext&) = delete;
  ClContext& operator=(const ClContext&) = delete;

  const ClDeviceId& device() const { return device_; }
  /// Returns platform, device and driver; measurements hold for all devices of the same identity.
  std::string identity() const;
  bool is_processor() const { return processor_; }
  /// Returns whether the device reports fused multiply-add.
  bool has_fma() const { return (operations_ & CL_FP_FMA) != 0; }
  /// Returns whether the device reports that it rounds every operation of update.cl correctly and keeps denormals.
  bool rounds_correctly() const {
    constexpr cl_device_fp_config kAll =
        CL_FP_DENORM | CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    return (operations_ & kAll) == kAll;
  }
  const ClSettings& settings() const { return settings_; }
  const ClCounts& counts() const { return counts_; }

  /// Returns the bytes of all existing buffers.
  std::size_t allocated() const { return allocated_; }
  /// Allocates memory filled with zeros. Throws Error naming `what` and both sizes where the device has too little
  /// memory.
  ClBuffer allocate(std::size_t bytes, const std::string& what);
  /// Returns whether buffers can be viewed as images.
  bool has_images() const { return most_texels_ > 0; }
  /// Returns the buffer as an image of texels of four floats, or of four 16-bit floats. Throws Error where the buffer
  /// is too large for an image.
  ClBuffer image_of(const ClBuffer& buffer, bool half, const std::string& what);
  /// Copy values to or from the elements of the buffer from `first` on, after everything enqueued so far.
  void write(const ClBuffer& to, std::size_t first, std::span<const float> values);
  void read(const ClBuffer& from, std::size_t first, std::span<float> values);
  /// Whether the device's memory is the host's.
  bool shares_memory() const { return shares_memory_; }
  /// Lets the host write `count` elements of the buffer from `first` on in place, after everything enqueued so far. The
  /// device must share the host's memory.
  void write_in_place(const ClBuffer& to, std::size_t first, std::size_t count,
                      const std::function<void(float* memory)>& write);
  /// Returns a place for read_later(), zero at first. It lives as long as the context, or the device's last command.
  float* place_for_later();
  /// Copies the first element of the buffer to the place after everything enqueued so far, without waiting for it.
  void read_later(const ClBuffer& from, float* place);

  /// Returns the kernels of the program in the order of `names`. The binary comes from the disk cache if device,
  /// driver, source and options are known there. Throws Error with the compiler's log where the build fails.
  std::vector<ClKernel> build(const std::string& source, const std::string& options,
                              const std::vector<std::string>& names);

  /// Enqueues a kernel over a range, split into launches that each stay within settings.launch_time. Arguments are
  /// buffers, or numbers of the kernel's own types. Kernels must check the end of the range themselves, because a
  /// work-group may reach beyond it.
  template <class... Args>
  void launch(const ClKernel& kernel, const ClRange& range, const Args&... args) {
    launch_from(kernel, 0, range, args...);
  }
  /// The same for a range whose third index begins at `third`.
  template <class... Args>
  void launch_from(const ClKernel& kernel, std::size_t third, const ClRange& range, const Args&... args) {
    cl_uint index = 0;
    (set_argument(kernel, index++, args), ...);
    enqueue(kernel, {0, 0, third}, range);
  }

  /// Enqueues the commands of another library: `command` is called with the queue and a place for its last event.
  void enqueue_other(const std::string& what, const std::function<void(cl_command_queue*, cl_event*)>& command);

  /// Waits until everything enqueued has completed. Throws DeviceLost when no further command completes within
  /// settings.patience, or when the device failed.
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

  /// Maps memory that the device shares with the host, so that no driver copies it. give_back() ends the mapping.
  void* borrow(const ClBuffer& buffer, std::size_t offset, std::size_t bytes, cl_map_flags why);
  void give_back(const ClBuffer& buffer, void* memory);
  void fill_with_zeros(const ClBuffer& buffer);
  ClRange group_of(const ClKernel& kernel, const ClRange& range) const;
  void enqueue(const ClKernel& kernel, ClRange first, const ClRange& range);
  void enqueue_pieces(const ClKernel& kernel, const ClRange& first, const ClRange& range);
  void enqueue_piece(const ClKernel& kernel, const ClRange& first, const ClRange& range);
  void wait_for_last();
  void lose_if_stuck(std::size_t& oldest);
  void collect(const Pending& pending);
  cl_int status_of(const Pending& pending);
  [[noreturn]] void lose(const std::string& why);
  /// Loses the device if a command to it failed.
  void check(cl_int code, const std::string& what);
  cl_program program_of(const std::string& source, const std::string& options);
  cl_program cached_program(const std::string& key, const std::string& options);
  void keep(cl_program program, const std::string& key) const;

  friend class ClBuffer;

  ClDeviceId device_;
  ClSettings settings_;
  bool processor_ = false;
  cl_device_fp_config operations_ = 0;  ///< how the device says that it rounds operations on floats
  bool shares_memory_ = false;          ///< whether its memory is the host's
  std::size_t largest_buffer_ = 0;
  std::size_t most_texels_ = 0;  ///< the most texels of an image
  ClRange most_items_{};         ///< the most work-items of a work-group in each dimension
  std::size_t allocated_ = 0;
  ClCounts counts_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::vector<cl_program> programs_;
  std::vector<cl_kernel> kernels_;
  std::vector<Pending> pending_;
  bool lost_ = false;  ///< the device hangs; releasing its resources might hang too
  std::unique_ptr<std::deque<float>> places_ = std::make_unique<std::deque<float>>();  ///< for read_later()
};

}  // namespace convoy
