// How the fake OpenCL library behaves.
#pragma once

#include <cstdint>

struct FakeOpenCl {
  bool no_driver = false;
  bool old_version = false;
  bool no_compiler = false;
  bool build_fails = false;
  bool out_of_memory = false;
  bool has_images = false;  ///< it says so, and refuses every one
  bool kernels_hang = false;
  bool kernels_fail = false;
  int vanishes_after = 0;  ///< kernels; 0: never
  std::uint64_t largest_buffer = std::uint64_t{1} << 20;
};

extern "C" void fake_opencl_behave(const FakeOpenCl* behaviour);
