// OpenCL 1.2, loaded when the program runs: nothing is linked, and a machine without it is a machine without rows.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace convoy {

// Every function of the library that Convoy calls.
#define CONVOY_OPENCL_FUNCTIONS(X) \
  X(clGetPlatformIDs)              \
  X(clGetPlatformInfo)             \
  X(clGetDeviceIDs)                \
  X(clGetDeviceInfo)               \
  X(clCreateContext)               \
  X(clReleaseContext)              \
  X(clCreateCommandQueue)          \
  X(clReleaseCommandQueue)         \
  X(clCreateBuffer)                \
  X(clCreateImage)                 \
  X(clReleaseMemObject)            \
  X(clCreateProgramWithSource)     \
  X(clCreateProgramWithBinary)     \
  X(clBuildProgram)                \
  X(clGetProgramBuildInfo)         \
  X(clGetProgramInfo)              \
  X(clReleaseProgram)              \
  X(clCreateKernel)                \
  X(clReleaseKernel)               \
  X(clSetKernelArg)                \
  X(clGetKernelWorkGroupInfo)      \
  X(clEnqueueNDRangeKernel)        \
  X(clEnqueueReadBuffer)           \
  X(clEnqueueWriteBuffer)          \
  X(clEnqueueFillBuffer)           \
  X(clEnqueueMapBuffer)            \
  X(clEnqueueUnmapMemObject)       \
  X(clFlush)                       \
  X(clGetEventInfo)                \
  X(clSetEventCallback)            \
  X(clGetEventProfilingInfo)       \
  X(clReleaseEvent)

/// The library's functions by their own names.
struct OpenCl {
#define CONVOY_DECLARE(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): names
  CONVOY_OPENCL_FUNCTIONS(CONVOY_DECLARE)
#undef CONVOY_DECLARE
};

/// The library, opened at the first call and kept. CONVOY_OPENCL_LIBRARY names another than the usual ones. Throws Error
/// saying what was tried.
const OpenCl& opencl();

/// "CL_OUT_OF_RESOURCES (-5)".
std::string opencl_error(cl_int code);
/// Throws Error "WHAT: CODE" unless the code is CL_SUCCESS.
void check_opencl(cl_int code, const std::string& what);

/// A device of the machine, in the order of platforms and of their devices.
struct ClDeviceId {
  int number = 0;  ///< as in "opencl:0"
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  std::string name;
  std::string platform_name;
  std::string driver;      ///< version
  bool processor = false;  ///< the machine's own, not a GPU
  std::string unusable;
};

/// For people: name, platform, driver, memory.
std::string describe(const ClDeviceId& id);

/// All devices of all platforms. Throws Error where there is no library or no driver.
std::vector<ClDeviceId> opencl_devices();

template <class T>
T device_info(cl_device_id device, cl_device_info what) {
  T value{};
  check_opencl(opencl().clGetDeviceInfo(device, what, sizeof(value), &value, nullptr), "clGetDeviceInfo");
  return value;
}

}  // namespace convoy
