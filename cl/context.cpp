#include "cl/context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "core/error.hpp"

namespace convoy {
namespace {

double items_in(const ClRange& range) {
  return static_cast<double>(range[0]) * static_cast<double>(range[1]) * static_cast<double>(range[2]);
}

/// Returns the most work-items of a work-group in the first three dimensions; every device has as many.
ClRange most_items_of(cl_device_id device) {
  const auto dimensions = device_info<cl_uint>(device, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS);
  std::vector<std::size_t> most(std::max<std::size_t>(dimensions, 3));
  check_opencl(opencl().clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, most.size() * sizeof(std::size_t),
                                        most.data(), nullptr),
               "clGetDeviceInfo");
  return {most[0], most[1], most[2]};
}

std::size_t most_texels_of(cl_device_id device) {
  if (device_info<cl_bool>(device, CL_DEVICE_IMAGE_SUPPORT) == CL_FALSE) return 0;
  return device_info<std::size_t>(device, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE);
}

/// Keeps memory that a lost device may still write to. Nothing frees it, not even the end of the process, where the
/// device may write later than static objects are destroyed.
void keep_for_ever(std::unique_ptr<std::deque<float>> memory) {
  static std::mutex mutex;
  static auto* const kept = std::make_unique<std::vector<std::unique_ptr<std::deque<float>>>>().release();
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
}

}  // namespace

ClBuffer::~ClBuffer() {
  if (memory_ == nullptr || context_->lost_) return;
  context_->allocated_ -= bytes_;
  opencl().clReleaseMemObject(memory_);
}

ClContext::ClContext(const ClDeviceId& device, const ClSettings& settings)
    : device_(device),
      settings_(settings),
      processor_(settings.processor.value_or(
          (device_info<cl_device_type>(device.device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0)),
      operations_(device_info<cl_device_fp_config>(device.device, CL_DEVICE_SINGLE_FP_CONFIG)),
      shares_memory_(settings.shares_memory.value_or(
          device_info<cl_bool>(device.device, CL_DEVICE_HOST_UNIFIED_MEMORY) != CL_FALSE)),
      largest_buffer_(device_info<cl_ulong>(device.device, CL_DEVICE_MAX_MEM_ALLOC_SIZE)),
      most_texels_(most_texels_of(device.device)),
      most_items_(most_items_of(device.device)) {
  cl_int code = CL_SUCCESS;
  context_ = opencl().clCreateContext(nullptr, 1, &device_.device, nullptr, nullptr, &code);
  check_opencl(code, "clCreateContext on " + device_.name);
  queue_ = opencl().clCreateCommandQueue(context_, device_.device, CL_QUEUE_PROFILING_ENABLE, &code);
  if (code != CL_SUCCESS) opencl().clReleaseContext(context_);
  check_opencl(code, "clCreateCommandQueue on " + device_.name);
}

ClContext::~ClContext() {
  try {
    if (!lost_) finish();
  } catch (const Error&) {
    lost_ = true;
  }
  if (lost_) {
    keep_for_ever(std::move(places_));
    return;
  }
  for (const Pending& pending : pending_) opencl().clReleaseEvent(pending.event);
  for (cl_kernel kernel : kernels_) opencl().clReleaseKernel(kernel);
  for (cl_program program : programs_) opencl().clReleaseProgram(program);
  opencl().clReleaseCommandQueue(queue_);
  opencl().clReleaseContext(context_);
}

ClBuffer ClContext::allocate(std::size_t bytes, const std::string& what) {
  constexpr double kMiB = 1024.0 * 1024.0;
  if (bytes > largest_buffer_) {
    fail("{} needs {:.1f} MiB in one piece, and {} allocates at most {:.1f} MiB; use a smaller batch or fewer filters",
         what, static_cast<double>(bytes) / kMiB, device_.name, static_cast<double>(largest_buffer_) / kMiB);
  }
  cl_int code = CL_SUCCESS;
  const cl_mem_flags flags = CL_MEM_READ_WRITE | (shares_memory_ ? CL_MEM_ALLOC_HOST_PTR : 0);
  const cl_mem memory = opencl().clCreateBuffer(context_, flags, std::max<std::size_t>(bytes, 4), nullptr, &code);
  check_opencl(code, fmt::format("{:.1f} MiB for {} on {}", static_cast<double>(bytes) / kMiB, what, device_.name));
  ClBuffer buffer(*this, memory, bytes);
  allocated_ += bytes;
  fill_with_zeros(buffer);
  return buffer;
}

ClBuffer ClContext::image_of(const ClBuffer& buffer, bool half, const std::string& what) {
  const std::size_t texels = buffer.bytes() / (half ? 4 * sizeof(cl_half) : 4 * sizeof(cl_float));
  if (texels > most_texels_) {
    fail("{} needs an image of {} texels, and {} supports at most {}", what, texels, device_.name, most_texels_);
  }
  const cl_image_format format{
      .image_channel_order = CL_RGBA,
      .image_channel_data_type = static_cast<cl_channel_type>(half ? CL_HALF_FLOAT : CL_FLOAT)};
  cl_image_desc desc{};
  desc.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER;
  desc.image_width = texels;
  desc.buffer = buffer.memory();
  cl_int code = CL_SUCCESS;
  const cl_mem image = opencl().clCreateImage(context_, CL_MEM_READ_ONLY, &format, &desc, nullptr, &code);
  check_opencl(code, fmt::format("an image of {} on {}", what, device_.name));
  return {*this, image, 0};
}

void ClContext::fill_with_zeros(const ClBuffer& buffer) {
  const cl_int zero = 0;
  cl_event event = nullptr;
  check(opencl().clEnqueueFillBuffer(queue_, buffer.memory(), &zero, sizeof(zero), 0,
                                     buffer.bytes() / sizeof(zero) * sizeof(zero), 0, nullptr, &event),
        "clEnqueueFillBuffer");
  pending_.push_back({nullptr, 0.0, event});
}

void* ClContext::borrow(const ClBuffer& buffer, std::size_t offset, std::size_t bytes, cl_map_flags why) {
  cl_int code = CL_SUCCESS;
  cl_event event = nullptr;
  void* memory =
      opencl().clEnqueueMapBuffer(queue_, buffer.memory(), CL_FALSE, why, offset, bytes, 0, nullptr, &event, &code);
  check(code, "clEnqueueMapBuffer");
  pending_.push_back({nullptr, 0.0, event});
  finish();
  return memory;
}

void ClContext::give_back(const ClBuffer& buffer, void* memory) {
  cl_event event = nullptr;
  check(opencl().clEnqueueUnmapMemObject(queue_, buffer.memory(), memory, 0, nullptr, &event),
        "clEnqueueUnmapMemObject");
  pending_.push_back({nullptr, 0.0, event});
}

void ClContext::write(const ClBuffer& to, std::size_t first, std::span<const float> values) {
  if (shares_memory_) {
    return write_in_place(to, first, values.size(),
                          [&](float* memory) { std::memcpy(memory, values.data(), values.size_bytes()); });
  }
  const std::size_t offset = first * sizeof(float);
  invariant(offset + values.size_bytes() <= to.bytes(), "the values fit into the buffer");
  counts_.bytes_written += values.size_bytes();
  cl_event event = nullptr;
  check(opencl().clEnqueueWriteBuffer(queue_, to.memory(), CL_FALSE, offset, values.size_bytes(), values.data(), 0,
                                      nullptr, &event),
        "clEnqueueWriteBuffer");
  pending_.push_back({nullptr, 0.0, event});
  finish();  // the caller may change the values after this function returns
}

void ClContext::write_in_place(const ClBuffer& to, std::size_t first, std::size_t count,
                               const std::function<void(float* memory)>& write) {
  const std::size_t offset = first * sizeof(float);
  const std::size_t bytes = count * sizeof(float);
  invariant(shares_memory_ && offset + bytes <= to.bytes(), "the values fit into the buffer, which the host can see");
  counts_.bytes_written += bytes;
  void* memory = borrow(to, offset, bytes, CL_MAP_WRITE_INVALIDATE_REGION);
  write(static_cast<float*>(memory));
  give_back(to, memory);
}

void ClContext::read(const ClBuffer& from, std::size_t first, std::span<float> values) {
  const std::size_t offset = first * sizeof(float);
  invariant(offset + values.size_bytes() <= from.bytes(), "the values lie within the buffer");
  counts_.bytes_read += values.size_bytes();
  if (shares_memory_) {
    void* memory = borrow(from, offset, values.size_bytes(), CL_MAP_READ);
    std::memcpy(values.data(), memory, values.size_bytes());
    return give_back(from, memory);
  }
  cl_event event = nullptr;
  check(opencl().clEnqueueReadBuffer(queue_, from.memory(), CL_FALSE, offset, values.size_bytes(), values.data(), 0,
                                     nullptr, &event),
        "clEnqueueReadBuffer");
  pending_.push_back({nullptr, 0.0, event});
  finish();
}

float* ClContext::place_for_later() { return &places_->emplace_back(0.0F); }

void ClContext::read_later(const ClBuffer& from, float* place) {
  counts_.bytes_read += sizeof(float);
  cl_event event = nullptr;
  check(opencl().clEnqueueReadBuffer(queue_, from.memory(), CL_FALSE, 0, sizeof(float), place, 0, nullptr, &event),
        "clEnqueueReadBuffer");
  pending_.push_back({nullptr, 0.0, event});
}

void ClContext::set_argument(const ClKernel& kernel, cl_uint index, std::size_t size, const void* value) {
  const cl_int code = opencl().clSetKernelArg(kernel.handle, index, size, value);
  invariant(code == CL_SUCCESS, "the arguments match the kernel's signature");
}

void ClContext::enqueue(const ClKernel& kernel, ClRange first, const ClRange& range) {
  if (kernel.timing->items > 0.0) return enqueue_pieces(kernel, first, range);
  // The time of a first slice predicts the time of the others.
  const std::size_t along = range[2] > 1 ? 2 : 1;
  ClRange slice = range;
  slice[along] = 1;
  enqueue_piece(kernel, first, slice);
  finish();
  ClRange rest = range;
  first[along] += 1;
  rest[along] -= 1;
  if (rest[along] > 0) enqueue_pieces(kernel, first, rest);
}

void ClContext::enqueue_pieces(const ClKernel& kernel, const ClRange& first, const ClRange& range) {
  const std::size_t along = range[2] > 1 ? 2 : range[1] > 1 ? 1 : 0;
  // Only the last piece along the first dimension may end within a work-group.
  const std::size_t unit = along == 0 ? group_of(kernel, range)[0] : 1;
  const std::size_t half = (range[along] / 2 + unit - 1) / unit * unit;
  const bool known = kernel.timing->items > 0.0;  // unless the driver does not time launches
  if (!known || kernel.timing->predict(items_in(range)) <= settings_.launch_time.count() || half == 0 ||
      half >= range[along]) {
    return enqueue_piece(kernel, first, range);
  }
  ClRange front = range;
  ClRange back = range;
  ClRange back_first = first;
  front[along] = half;
  back[along] -= half;
  back_first[along] += half;
  enqueue_pieces(kernel, first, front);
  enqueue_pieces(kernel, back_first, back);
}

/// Returns the shape of work-groups. Along the first dimension the last one may reach beyond the range.
ClRange ClContext::group_of(const ClKernel& kernel, const ClRange& range) const {
  constexpr std::size_t kMost = 64;
  if (processor_ || settings_.group > 0) {
    const std::size_t wanted = settings_.group > 0 && range[0] > 1 ? settings_.group : 1;
    return {std::min(wanted, kernel.largest_group), 1, 1};
  }
  // Small maps have few columns, so a work-group has several rows or maps; a GPU would leave most of its lanes idle.
  ClRange group{1, 1, 1};
  for (std::size_t d = 0; d < group.size(); ++d) {
    const auto grows = [&] { return d == 0 ? group[d] < range[d] : range[d] % (2 * group[d]) == 0; };
    const auto fits = [&] {
      return 2 * group[0] * group[1] * group[2] <= std::min(kMost, kernel.largest_group) &&
             2 * group[d] <= most_items_[d];
    };
    while (grows() && fits()) group[d] *= 2;
  }
  return group;
}

void ClContext::enqueue_piece(const ClKernel& kernel, const ClRange& first, const ClRange& range) {
  const ClRange local = group_of(kernel, range);
  const ClRange global{(range[0] + local[0] - 1) / local[0] * local[0], range[1], range[2]};
  cl_event event = nullptr;
  const cl_int code = opencl().clEnqueueNDRangeKernel(queue_, kernel.handle, 3, first.data(), global.data(),
                                                      local.data(), 0, nullptr, &event);
  check(code, kernel.timing->kernel);
  ++counts_.launches;
  counts_.groups += global[0] / local[0] * (global[1] / local[1]) * (global[2] / local[2]);
  pending_.push_back({kernel.timing, items_in(range), event});
  check(opencl().clFlush(queue_), "clFlush");
}

void ClContext::enqueue_other(const std::string& what,
                              const std::function<void(cl_command_queue*, cl_event*)>& command) {
  cl_event event = nullptr;
  command(&queue_, &event);
  pending_.push_back({std::make_shared<ClTiming>(ClTiming{.kernel = what}), 1.0, event});
  check(opencl().clFlush(queue_), "clFlush");
}

void ClContext::finish() {
  if (pending_.empty()) return;
  ++counts_.waits;
  check(opencl().clFlush(queue_), "clFlush");
  wait_for_last();
  for (const Pending& pending : std::exchange(pending_, {})) collect(pending);
}

namespace {

/// A driver's thread sets this flag when a command has completed, maybe long after the last wait for the command.
struct Completion {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;

  void wait(std::chrono::duration<double> most) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, most, [this] { return done; });
  }
};

void CL_CALLBACK tell(cl_event, cl_int, void* data) {
  const std::unique_ptr<std::shared_ptr<Completion>> owner(static_cast<std::shared_ptr<Completion>*>(data));
  const std::lock_guard lock((*owner)->mutex);
  (*owner)->done = true;
  (*owner)->changed.notify_all();
}

}  // namespace

/// Waits for the last command. A processor's driver calls back at once, and must not lose a core to this thread. A
/// GPU's driver may call back late, so this thread asks the driver for the command's status: at first again and again,
/// later after pauses that are short beside the time since the wait began.
void ClContext::wait_for_last() {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  constexpr Seconds kAskAtOnce{1e-4};
  constexpr Seconds kLongestPause{1e-3};
  constexpr Seconds kPauseIfTold{1e-2};
  const auto completion = std::make_shared<Completion>();
  if (processor_) {
    auto given = std::make_unique<std::shared_ptr<Completion>>(completion);
    check(opencl().clSetEventCallback(pending_.back().event, CL_COMPLETE, tell, given.get()), "clSetEventCallback");
    given.release();
  }
  const Clock::time_point begun = Clock::now();
  Clock::time_point progress = begun;
  std::size_t oldest = 0;
  while (status_of(pending_.back()) > CL_COMPLETE) {
    const Seconds passed = Clock::now() - begun;
    if (processor_) {
      completion->wait(std::min<Seconds>(kPauseIfTold, settings_.patience));
    } else if (passed < kAskAtOnce) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min(passed / 8, kLongestPause));
    }
    if (Clock::now() - progress < settings_.patience) continue;
    lose_if_stuck(oldest);
    progress = Clock::now();
  }
}

/// Loses the device if the oldest unfinished command is still `oldest`, which becomes the one that is oldest now.
void ClContext::lose_if_stuck(std::size_t& oldest) {
  std::size_t now = oldest;
  while (now < pending_.size() && status_of(pending_[now]) <= CL_COMPLETE) ++now;
  if (now < pending_.size() && now == oldest) {
    lose(fmt::format("{} did not complete within {:.3g} s: the driver hangs, or the device is far too slow",
                     pending_[now].what(), settings_.patience.count()));
  }
  oldest = now;  // the device is slow, but it makes progress
}

void ClContext::lose(const std::string& why) {
  lost_ = true;
  throw DeviceLost(fmt::format("OpenCL device {}: {}", device_.name, why));
}

void ClContext::check(cl_int code, const std::string& what) {
  if (code != CL_SUCCESS) lose(fmt::format("{}: {}", what, opencl_error(code)));
}

cl_int ClContext::status_of(const Pending& pending) {
  cl_int status = CL_QUEUED;
  check(opencl().clGetEventInfo(pending.event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr),
        "clGetEventInfo");
  return status;
}

void ClContext::collect(const Pending& pending) {
  const cl_int status = status_of(pending);
  if (status < 0) {
    lose(fmt::format("{} failed: {}", pending.what(), opencl_error(status)));
  }
  if (pending.timing != nullptr) {
    cl_ulong begin = 0;
    cl_ulong end = 0;
    if (opencl().clGetEventProfilingInfo(pending.event, CL_PROFILING_COMMAND_START, sizeof(begin), &begin, nullptr) ==
            CL_SUCCESS &&
        opencl().clGetEventProfilingInfo(pending.event, CL_PROFILING_COMMAND_END, sizeof(end), &end, nullptr) ==
            CL_SUCCESS &&
        end > begin) {
      pending.timing->learn(pending.items, 1e-9 * static_cast<double>(end - begin), settings_.launch_time.count());
    }
  }
  opencl().clReleaseEvent(pending.event);
}

}  // namespace convoy
