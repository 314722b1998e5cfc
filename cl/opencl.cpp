#include "cl/opencl.hpp"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdlib>
#include <map>

#include "core/error.hpp"

namespace convoy {
namespace {

/// Returns the libraries in the order of trying. Bare names come first, because Android refuses absolute paths to apps
/// unless the vendor lists the library.
std::vector<std::string> library_names() {
  if (const char* name = std::getenv("CONVOY_OPENCL_LIBRARY"); name != nullptr && *name != '\0') return {name};
  return {"libOpenCL.so.1",
          "libOpenCL.so",
          "libGLES_mali.so",
          "libmali.so",
          "libPVROCL.so",
          "/system/vendor/lib64/libOpenCL.so",
          "/system/lib64/libOpenCL.so",
          "/system/vendor/lib64/egl/libGLES_mali.so",
          "/system/vendor/lib64/libPVROCL.so"};
}

OpenCl load() {
  std::vector<std::string> failures;
  for (const std::string& name : library_names()) {
    void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      failures.push_back(dlerror());
      continue;
    }
    OpenCl functions;
    const char* missing = nullptr;
#define CONVOY_LOAD(function)                                                                     \
  functions.function = reinterpret_cast<decltype(functions.function)>(dlsym(library, #function)); \
  if (functions.function == nullptr) missing = #function;
    CONVOY_OPENCL_FUNCTIONS(CONVOY_LOAD)
#undef CONVOY_LOAD
    if (missing == nullptr) return functions;
    failures.push_back(fmt::format("{} lacks the function {}", name, missing));
    dlclose(library);
  }
  fail(
      "this machine has no OpenCL library (on Debian run apt-get install ocl-icd-libopencl1 and install a driver); "
      "tried: {}",
      fmt::join(failures, "; "));
}

std::string text_of(cl_device_id device, cl_device_info what) {
  std::array<char, 1024> text{};
  check_opencl(opencl().clGetDeviceInfo(device, what, text.size() - 1, text.data(), nullptr), "clGetDeviceInfo");
  return text.data();
}

std::string name_of(cl_platform_id platform) {
  std::array<char, 1024> text{};
  check_opencl(opencl().clGetPlatformInfo(platform, CL_PLATFORM_NAME, text.size() - 1, text.data(), nullptr),
               "clGetPlatformInfo");
  return text.data();
}

std::string why_unusable(cl_device_id device) {
  if (device_info<cl_bool>(device, CL_DEVICE_AVAILABLE) == CL_FALSE) return "the driver reports it as unavailable";
  if (device_info<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE) == CL_FALSE) return "its driver has no compiler";
  if (device_info<cl_bool>(device, CL_DEVICE_ENDIAN_LITTLE) == CL_FALSE) return "it is big-endian";
  const std::string version = text_of(device, CL_DEVICE_VERSION);  // "OpenCL 1.2 ..."
  if (version.compare(0, 10, "OpenCL 1.0") == 0 || version.compare(0, 10, "OpenCL 1.1") == 0) {
    return fmt::format("it supports {}; Convoy needs 1.2", version.substr(0, 10));
  }
  return "";
}

}  // namespace

const OpenCl& opencl() {
  static const OpenCl functions = load();
  return functions;
}

std::string opencl_error(cl_int code) {
  static const std::map<cl_int, const char*> names = {
      {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND"},
      {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
      {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
      {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
      {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
      {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
      {CL_PROFILING_INFO_NOT_AVAILABLE, "CL_PROFILING_INFO_NOT_AVAILABLE"},
      {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
      {CL_MAP_FAILURE, "CL_MAP_FAILURE"},
      {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
      {CL_INVALID_VALUE, "CL_INVALID_VALUE"},
      {CL_INVALID_DEVICE, "CL_INVALID_DEVICE"},
      {CL_INVALID_CONTEXT, "CL_INVALID_CONTEXT"},
      {CL_INVALID_COMMAND_QUEUE, "CL_INVALID_COMMAND_QUEUE"},
      {CL_INVALID_MEM_OBJECT, "CL_INVALID_MEM_OBJECT"},
      {CL_INVALID_BINARY, "CL_INVALID_BINARY"},
      {CL_INVALID_BUILD_OPTIONS, "CL_INVALID_BUILD_OPTIONS"},
      {CL_INVALID_KERNEL_NAME, "CL_INVALID_KERNEL_NAME"},
      {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS"},
      {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE"},
      {CL_INVALID_GLOBAL_OFFSET, "CL_INVALID_GLOBAL_OFFSET"},
      {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE"},
      {CL_INVALID_OPERATION, "CL_INVALID_OPERATION"},
      {CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR"},
      {CL_INVALID_IMAGE_DESCRIPTOR, "CL_INVALID_IMAGE_DESCRIPTOR"},
      {CL_INVALID_IMAGE_SIZE, "CL_INVALID_IMAGE_SIZE"},
      {CL_IMAGE_FORMAT_NOT_SUPPORTED, "CL_IMAGE_FORMAT_NOT_SUPPORTED"},
      {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
  };
  const auto known = names.find(code);
  return fmt::format("{} ({})", known == names.end() ? "OpenCL error" : known->second, code);
}

void check_opencl(cl_int code, const std::string& what) {
  if (code != CL_SUCCESS) fail("OpenCL: {}: {}", what, opencl_error(code));
}

std::string describe(const ClDeviceId& id) {
  const auto memory = static_cast<double>(device_info<cl_ulong>(id.device, CL_DEVICE_GLOBAL_MEM_SIZE));
  return fmt::format("{}, {:.1f} GiB ({}, driver {})", id.name, memory / static_cast<double>(1 << 30), id.platform_name,
                     id.driver);
}

std::vector<ClDeviceId> opencl_devices() {
  cl_uint count = 0;
  const cl_int code = opencl().clGetPlatformIDs(0, nullptr, &count);
  if (code == -1001 || (code == CL_SUCCESS && count == 0)) {
    fail(
        "OpenCL is installed, but it has no driver (for the processor, on Debian run apt-get install pocl-opencl-icd)");
  }
  check_opencl(code, "clGetPlatformIDs");
  std::vector<cl_platform_id> platforms(count);
  check_opencl(opencl().clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  std::vector<ClDeviceId> found;
  for (cl_platform_id platform : platforms) {
    cl_uint devices_here = 0;
    const cl_int answer = opencl().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &devices_here);
    if (answer == CL_DEVICE_NOT_FOUND) continue;
    check_opencl(answer, "clGetDeviceIDs");
    std::vector<cl_device_id> devices(devices_here);
    check_opencl(opencl().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, devices_here, devices.data(), nullptr),
                 "clGetDeviceIDs");
    for (cl_device_id device : devices) {
      found.push_back({.number = static_cast<int>(found.size()),
                       .platform = platform,
                       .device = device,
                       .name = text_of(device, CL_DEVICE_NAME),
                       .platform_name = name_of(platform),
                       .driver = text_of(device, CL_DRIVER_VERSION),
                       .processor = (device_info<cl_device_type>(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0,
                       .unusable = why_unusable(device)});
    }
  }
  if (found.empty()) fail("OpenCL drivers are installed, but they report no device");
  return found;
}

}  // namespace convoy
