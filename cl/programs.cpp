// Programs of an OpenCL device: they are compiled once, and remembered on disk.

#include <fmt/format.h>

#include <algorithm>

#include "cl/context.hpp"
#include "core/cache_folder.hpp"
#include "core/disk_cache.hpp"
#include "core/error.hpp"

namespace convoy {

std::vector<ClKernel> ClContext::build(const std::string& source, const std::string& options,
                                       const std::vector<std::string>& names) {
  const cl_program program = program_of(source, options);
  std::vector<ClKernel> kernels;
  for (const std::string& name : names) {
    cl_int code = CL_SUCCESS;
    const cl_kernel handle = opencl().clCreateKernel(program, name.c_str(), &code);
    check_opencl(code, fmt::format("kernel {} on {}", name, device_.name));
    kernels_.push_back(handle);
    std::size_t largest = 1;
    check_opencl(opencl().clGetKernelWorkGroupInfo(handle, device_.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof(largest),
                                                   &largest, nullptr),
                 "clGetKernelWorkGroupInfo on " + device_.name);
    kernels.push_back({.handle = handle,
                       .largest_group = std::max<std::size_t>(largest, 1),
                       .timing = std::make_shared<ClTiming>(ClTiming{.kernel = name})});
  }
  return kernels;
}

std::string ClContext::identity() const {
  return fmt::format("{}\n{}\n{}", device_.platform_name, device_.name, device_.driver);
}

cl_program ClContext::program_of(const std::string& source, const std::string& options) {
  const std::string key = fmt::format("{}\n{}\n{}", identity(), options, source);
  if (const cl_program program = cached_program(key, options); program != nullptr) return program;
  cl_int code = CL_SUCCESS;
  const char* text = source.c_str();
  const cl_program program = opencl().clCreateProgramWithSource(context_, 1, &text, nullptr, &code);
  check_opencl(code, "clCreateProgramWithSource on " + device_.name);
  programs_.push_back(program);
  code = opencl().clBuildProgram(program, 1, &device_.device, options.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) {
    std::string log(16384, '\0');
    opencl().clGetProgramBuildInfo(program, device_.device, CL_PROGRAM_BUILD_LOG, log.size() - 1, log.data(), nullptr);
    fail("OpenCL: the compiler of {} ({} {}) rejected Convoy's kernels: {}; its log:\n{}", device_.name,
         device_.platform_name, device_.driver, opencl_error(code), log.c_str());
  }
  ++counts_.built;
  keep(program, key);
  return program;
}

// A cached program that is unusable for any reason is built from source again.
cl_program ClContext::cached_program(const std::string& key, const std::string& options) {
  const std::optional<std::string> kept = DiskCache(cache_folder("opencl")).recall(key);
  if (!kept) return nullptr;
  const auto* binary = reinterpret_cast<const unsigned char*>(kept->data());
  const std::size_t size = kept->size();
  cl_int status = CL_SUCCESS;
  cl_int code = CL_SUCCESS;
  const cl_program program =
      opencl().clCreateProgramWithBinary(context_, 1, &device_.device, &size, &binary, &status, &code);
  if (code != CL_SUCCESS || status != CL_SUCCESS) return nullptr;
  if (opencl().clBuildProgram(program, 1, &device_.device, options.c_str(), nullptr, nullptr) != CL_SUCCESS) {
    opencl().clReleaseProgram(program);
    return nullptr;
  }
  programs_.push_back(program);
  ++counts_.loaded;
  return program;
}

void ClContext::keep(cl_program program, const std::string& key) const {
  std::size_t size = 0;
  if (opencl().clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, nullptr) != CL_SUCCESS ||
      size == 0) {
    return;
  }
  std::string binary(size, '\0');
  auto* to = reinterpret_cast<unsigned char*>(binary.data());
  if (opencl().clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(to), &to, nullptr) == CL_SUCCESS) {
    DiskCache(cache_folder("opencl")).remember(key, binary);
  }
}

}  // namespace convoy
