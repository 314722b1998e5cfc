// OpenCL 1.2, loaded at run time. The program is not linked with it, and lists no OpenCL device on a machine without
// it.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace convoy {

// All functions of the library that Convoy calls.
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

/// The library's functions under their own names.
struct OpenCl {
#define CONVOY_DECLARE(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): a name
  CONVOY_OPENCL_FUNCTIONS(CONVOY_DECLARE)
#undef CONVOY_DECLARE
};

/// Returns the library, which is opened by the first call and stays open. The environment variable
/// CONVOY_OPENCL_LIBRARY names a library in place of the usual ones. Throws Error listing the names that were tried.
const OpenCl& opencl();

/// Returns a code as text, such as "CL_OUT_OF_RESOURCES (-5)".
std::string opencl_error(cl_int code);
/// Throws Error "OpenCL: WHAT: CODE" unless the code is CL_SUCCESS.
void check_opencl(cl_int code, const std::string& what);

/// A device of the machine. Devices are numbered in the order of platforms and of the devices of each platform.
struct ClDeviceId {
  int number = 0;  ///< N of "opencl:N"
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  std::string name;
  std::string platform_name;
  std::string driver;      ///< version of the driver
  bool processor = false;  ///< the machine's CPU, not a GPU
  std::string unusable;
};

/// Returns name, platform, driver and memory for people.
std::string describe(const ClDeviceId& id);

/// Returns all devices of all platforms. Throws Error where there is no library or no driver.
std::vector<ClDeviceId> opencl_devices();

template <class T>
T device_info(cl_device_id device, cl_device_info what) {
  T value{};
  check_opencl(opencl().clGetDeviceInfo(device, what, sizeof(value), &value, nullptr), "clGetDeviceInfo");
  return value;
}

}  // namespace convoy
