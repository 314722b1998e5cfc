// An OpenCL library with one device that computes nothing. It is loaded in the place of a real one, and fails on
// request.

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "tests/cl/fake_opencl.hpp"

#include <CL/cl.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace {

/// Reads the behaviour from the environment, because the programs that load the library cannot set it.
FakeOpenCl fake{.vanishes_after = std::getenv("FAKE_OPENCL_VANISHES") != nullptr ? 20 : 0,
                .largest_buffer = std::uint64_t{1} << 24};
int kernels_launched = 0;

struct Event {
  cl_int status;
};

/// The objects that Convoy has made and not released. Convoy does not release the objects of a hung device.
std::map<const void*, std::unique_ptr<Event>> events;
std::map<const void*, std::unique_ptr<std::vector<char>>> buffers;
/// Callbacks that run when the behaviour changes, which is after every deadline.
std::vector<std::function<void()>> late_calls;

template <class Handle>
Handle handle(std::uintptr_t value) {
  return reinterpret_cast<Handle>(value);
}

cl_int answer(const void* value, size_t bytes, size_t room, void* to, size_t* size) {
  if (size != nullptr) *size = bytes;
  if (to == nullptr) return CL_SUCCESS;
  if (room < bytes) return CL_INVALID_VALUE;
  std::memcpy(to, value, bytes);
  return CL_SUCCESS;
}

cl_int answer_text(const char* text, size_t room, void* to, size_t* size) {
  return answer(text, std::strlen(text) + 1, room, to, size);
}

template <class T>
cl_int answer_value(T value, size_t room, void* to, size_t* size) {
  return answer(&value, sizeof(value), room, to, size);
}

cl_int give_event(cl_event* to, cl_int status) {
  auto event = std::make_unique<Event>(Event{status});
  *to = reinterpret_cast<cl_event>(event.get());
  events.emplace(event.get(), std::move(event));
  return CL_SUCCESS;
}

std::vector<char>& bytes_of(cl_mem memory) { return *reinterpret_cast<std::vector<char>*>(memory); }
Event& event_of(cl_event event) { return *reinterpret_cast<Event*>(event); }

template <class T>
T created(cl_int* code, T value) {
  if (code != nullptr) *code = CL_SUCCESS;
  return value;
}

}  // namespace

extern "C" {

void fake_opencl_behave(const FakeOpenCl* behaviour) {
  fake = *behaviour;
  kernels_launched = 0;
  for (const auto& call : std::exchange(late_calls, {})) call();
  events.clear();
  buffers.clear();
}

cl_int clGetPlatformIDs(cl_uint, cl_platform_id* platforms, cl_uint* count) {
  if (fake.no_driver) return -1001;
  if (count != nullptr) *count = 1;
  if (platforms != nullptr) *platforms = handle<cl_platform_id>(1);
  return CL_SUCCESS;
}
cl_int clGetPlatformInfo(cl_platform_id, cl_platform_info, size_t room, void* to, size_t* size) {
  return answer_text("Fake platform", room, to, size);
}
cl_int clGetDeviceIDs(cl_platform_id, cl_device_type, cl_uint, cl_device_id* devices, cl_uint* count) {
  if (count != nullptr) *count = 1;
  if (devices != nullptr) *devices = handle<cl_device_id>(2);
  return CL_SUCCESS;
}
cl_int clGetDeviceInfo(cl_device_id, cl_device_info what, size_t room, void* to, size_t* size) {
  switch (what) {
    case CL_DEVICE_NAME: return answer_text("Fake GPU", room, to, size);
    case CL_DRIVER_VERSION: return answer_text("0.1", room, to, size);
    case CL_DEVICE_VERSION:
      return answer_text(fake.old_version ? "OpenCL 1.1 fake" : "OpenCL 1.2 fake", room, to, size);
    case CL_DEVICE_TYPE: return answer_value<cl_device_type>(CL_DEVICE_TYPE_GPU, room, to, size);
    case CL_DEVICE_IMAGE_SUPPORT: return answer_value<cl_bool>(fake.has_images ? CL_TRUE : CL_FALSE, room, to, size);
    case CL_DEVICE_IMAGE_MAX_BUFFER_SIZE: return answer_value<std::size_t>(65536, room, to, size);
    case CL_DEVICE_HOST_UNIFIED_MEMORY: return answer_value<cl_bool>(CL_FALSE, room, to, size);
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_ENDIAN_LITTLE: return answer_value<cl_bool>(CL_TRUE, room, to, size);
    case CL_DEVICE_COMPILER_AVAILABLE:
      return answer_value<cl_bool>(fake.no_compiler ? CL_FALSE : CL_TRUE, room, to, size);
    case CL_DEVICE_SINGLE_FP_CONFIG: return answer_value<cl_device_fp_config>(CL_FP_FMA, room, to, size);
    case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS: return answer_value<cl_uint>(3, room, to, size);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES: return answer_value(std::array<std::size_t, 3>{256, 256, 64}, room, to, size);
    case CL_DEVICE_MAX_COMPUTE_UNITS: return answer_value<cl_uint>(4, room, to, size);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT: return answer_value<cl_uint>(1, room, to, size);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE: return answer_value<cl_ulong>(fake.largest_buffer, room, to, size);
    case CL_DEVICE_GLOBAL_MEM_SIZE: return answer_value<cl_ulong>(4 * fake.largest_buffer, room, to, size);
    default: return CL_INVALID_VALUE;
  }
}
cl_context clCreateContext(const cl_context_properties*, cl_uint, const cl_device_id*,
                           void (*)(const char*, const void*, size_t, void*), void*, cl_int* code) {
  return created(code, handle<cl_context>(3));
}
cl_int clReleaseContext(cl_context) { return CL_SUCCESS; }
cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, cl_command_queue_properties, cl_int* code) {
  return created(code, handle<cl_command_queue>(4));
}
cl_int clReleaseCommandQueue(cl_command_queue) { return CL_SUCCESS; }

cl_mem clCreateBuffer(cl_context, cl_mem_flags, size_t bytes, void*, cl_int* code) {
  if (fake.out_of_memory) {
    *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return nullptr;
  }
  auto buffer = std::make_unique<std::vector<char>>(bytes);
  auto* memory = reinterpret_cast<cl_mem>(buffer.get());
  buffers.emplace(buffer.get(), std::move(buffer));
  return created(code, memory);
}
cl_mem clCreateImage(cl_context, cl_mem_flags, const cl_image_format*, const cl_image_desc*, void*, cl_int* code) {
  *code = CL_INVALID_OPERATION;
  return nullptr;
}
cl_int clReleaseMemObject(cl_mem memory) {
  buffers.erase(memory);
  return CL_SUCCESS;
}

cl_program clCreateProgramWithSource(cl_context, cl_uint, const char**, const size_t*, cl_int* code) {
  return created(code, handle<cl_program>(5));
}
cl_program clCreateProgramWithBinary(cl_context, cl_uint, const cl_device_id*, const size_t*, const unsigned char**,
                                     cl_int*, cl_int* code) {
  *code = CL_INVALID_BINARY;
  return nullptr;
}
cl_int clBuildProgram(cl_program, cl_uint, const cl_device_id*, const char*, void (*)(cl_program, void*), void*) {
  return fake.build_fails ? CL_BUILD_PROGRAM_FAILURE : CL_SUCCESS;
}
cl_int clGetProgramBuildInfo(cl_program, cl_device_id, cl_program_build_info, size_t room, void* to, size_t* size) {
  return answer_text("convoy.cl:7: error: this compiler knows no vload16", room, to, size);
}
cl_int clGetProgramInfo(cl_program, cl_program_info, size_t, void*, size_t*) { return CL_INVALID_VALUE; }
cl_int clReleaseProgram(cl_program) { return CL_SUCCESS; }
cl_kernel clCreateKernel(cl_program, const char*, cl_int* code) { return created(code, handle<cl_kernel>(6)); }
cl_int clReleaseKernel(cl_kernel) { return CL_SUCCESS; }
cl_int clSetKernelArg(cl_kernel, cl_uint, size_t, const void*) { return CL_SUCCESS; }
cl_int clGetKernelWorkGroupInfo(cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t room, void* to,
                                size_t* size) {
  return answer_value<size_t>(256, room, to, size);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*,
                              cl_uint, const cl_event*, cl_event* event) {
  ++kernels_launched;
  if (fake.vanishes_after > 0 && kernels_launched > fake.vanishes_after) return CL_DEVICE_NOT_AVAILABLE;
  if (fake.kernels_fail) return give_event(event, CL_OUT_OF_RESOURCES);
  return give_event(event, fake.kernels_hang ? CL_RUNNING : CL_COMPLETE);
}
cl_int clEnqueueReadBuffer(cl_command_queue, cl_mem memory, cl_bool, size_t offset, size_t bytes, void* to, cl_uint,
                           const cl_event*, cl_event* event) {
  std::memcpy(to, bytes_of(memory).data() + offset, bytes);
  return give_event(event, CL_COMPLETE);
}
cl_int clEnqueueWriteBuffer(cl_command_queue, cl_mem memory, cl_bool, size_t offset, size_t bytes, const void* from,
                            cl_uint, const cl_event*, cl_event* event) {
  std::memcpy(bytes_of(memory).data() + offset, from, bytes);
  return give_event(event, CL_COMPLETE);
}
cl_int clEnqueueFillBuffer(cl_command_queue, cl_mem, const void*, size_t, size_t, size_t, cl_uint, const cl_event*,
                           cl_event* event) {
  return give_event(event, CL_COMPLETE);
}
void* clEnqueueMapBuffer(cl_command_queue, cl_mem memory, cl_bool, cl_map_flags, size_t offset, size_t, cl_uint,
                         const cl_event*, cl_event* event, cl_int* code) {
  *code = give_event(event, CL_COMPLETE);
  return bytes_of(memory).data() + offset;
}
cl_int clEnqueueUnmapMemObject(cl_command_queue, cl_mem, void*, cl_uint, const cl_event*, cl_event* event) {
  return give_event(event, CL_COMPLETE);
}
cl_int clFlush(cl_command_queue) { return CL_SUCCESS; }

cl_int clGetEventInfo(cl_event event, cl_event_info, size_t room, void* to, size_t* size) {
  return answer_value<cl_int>(event_of(event).status, room, to, size);
}
cl_int clSetEventCallback(cl_event event, cl_int, void (*tell)(cl_event, cl_int, void*), void* data) {
  // Commands run in order, so commands after a hung one do not end either.
  if (!fake.calls_late && event_of(event).status <= CL_COMPLETE && !(fake.kernels_hang && kernels_launched > 0)) {
    tell(event, event_of(event).status, data);
  } else {
    late_calls.emplace_back([=] { tell(event, CL_COMPLETE, data); });
  }
  return CL_SUCCESS;
}
cl_int clGetEventProfilingInfo(cl_event, cl_profiling_info what, size_t room, void* to, size_t* size) {
  return answer_value<cl_ulong>(what == CL_PROFILING_COMMAND_END ? 2000 : 1000, room, to, size);
}
cl_int clReleaseEvent(cl_event event) {
  events.erase(event);
  return CL_SUCCESS;
}

}  // extern "C"
