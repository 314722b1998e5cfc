// The devices of this program: an explicit table. A backend that was not built in is a row that says so.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/device.hpp"

namespace convoy {

struct DeviceRow {
  std::string name;         ///< as in --device
  std::string description;  ///< what it is
  std::string unusable;     ///< why it cannot be used here; empty when it can
  bool automatic = false;   ///< "auto" considers it: neither an oracle nor a second way to use the processor
};

/// Every device the program knows of, usable or not.
std::vector<DeviceRow> list_devices();

struct DeviceOptions {
  int threads = 0;    ///< of the processor's devices; 0: all cores
  bool tf32 = false;  ///< NVIDIA GPUs may round factors to 10 bits of mantissa, for speed
  bool fp16 = false;  ///< OpenCL devices keep what convolutions read, input maps and weights, in 16 bits
  bool bf16 = false;  ///< "cpu" multiplies bfloat16 in convolutions; other devices refuse
};

/// The device of that name. "auto" is the fastest of the usable automatic rows, by a short timing where there are several;
/// "check:A,B" computes on A and compares with B (devices/check_device.hpp). Throws Error listing the known names, or
/// saying why the device cannot be used.
std::unique_ptr<Device> make_device(const std::string& name, const DeviceOptions& options);

/// "cuda:0,check:cpu,opencl:0,cpu" to its three names. Throws Error where one is missing or repeated.
std::vector<std::string> split_devices(const std::string& list);

/// Physical memory of this machine that is available now, in bytes.
std::size_t available_memory();

/// What shards may take on a device where its user does not say: 3/4 of its info's memory, or of what is available on
/// this machine.
std::size_t default_memory(const DeviceInfo& info);

/// "500MiB", "2G", "1.5GiB", "1000000" to bytes (K, M, G are powers of 1024). Throws Error naming the text.
std::size_t parse_memory(const std::string& text);

}  // namespace convoy
