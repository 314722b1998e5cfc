// The behaviour of the fake OpenCL library.
#pragma once

#include <cstdint>

struct FakeOpenCl {
  bool no_driver = false;
  bool old_version = false;
  bool no_compiler = false;
  bool build_fails = false;
  bool out_of_memory = false;
  bool has_images = false;  ///< the device claims to have images but refuses every one
  bool kernels_hang = false;
  bool kernels_fail = false;
  bool calls_late = false;  ///< the driver's thread tells of completed commands late
  int vanishes_after = 0;   ///< number of kernels after which the device vanishes; 0 for never
  std::uint64_t largest_buffer = std::uint64_t{1} << 20;
};

extern "C" void fake_opencl_behave(const FakeOpenCl* behaviour);
