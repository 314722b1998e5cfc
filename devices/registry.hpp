// The devices of this program, as an explicit table. A backend that was not built in has a row that says so.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/device.hpp"

namespace convoy {

/// A row of the table of devices.
struct DeviceRow {
  std::string name;         ///< the name that --device takes
  std::string description;  ///< hardware and library, for people
  std::string unusable;     ///< the reason why it cannot be used here; empty if it can
  bool automatic = false;   ///< "auto" considers the device; false for oracles and for second ways to use a processor
};

/// Returns every device that the program knows, usable or not.
std::vector<DeviceRow> list_devices();

/// Options that apply to whichever device is chosen.
struct DeviceOptions {
  int threads = 0;    ///< threads of the processor's devices; 0: all cores
  bool tf32 = false;  ///< NVIDIA GPUs may round factors to 10 bits of mantissa, for speed
  bool fp16 = false;  ///< OpenCL devices keep the inputs and weights of convolutions in 16 bits
  bool bf16 = false;  ///< "cpu" multiplies bfloat16 in convolutions; other devices refuse the option
};

/// Returns the device with this name. "auto" is the fastest usable automatic row, found by a short timing where there
/// are several; "check:A,B" computes on A and compares with B (devices/check_device.hpp); "paced:240" and "paced:FILE"
/// only take the time of computing (devices/paced_device.hpp). Throws Error that lists the known names, or says why the
/// device cannot be used.
std::unique_ptr<Device> make_device(const std::string& name, const DeviceOptions& options);

/// Whether the device with this name is driven by a GPU's driver. One of OpenCL may be a processor all the same.
bool is_gpu(const std::string& name);

/// Whether the device is a GPU with memory apart from the host's, by its name, and by what its driver says of OpenCL
/// devices.
bool has_memory_of_its_own(const Device& device);

/// Splits "cuda:0,check:cpu,opencl:0,cpu" into its three names. Throws Error where a name is missing or repeated.
std::vector<std::string> split_devices(const std::string& list);

/// Returns the bytes of this machine's physical memory that are available now.
std::size_t available_memory();

/// Returns the bytes that shards may take on a device by default: 3/4 of the device's memory, or of this machine's
/// available memory where the device has none of its own.
std::size_t default_memory(const DeviceInfo& info);

/// Converts "500MiB", "2G", "1.5GiB" or "1000000" to bytes; K, M and G are powers of 1024. Throws Error naming the
/// text.
std::size_t parse_memory(const std::string& text);
/// Returns an amount of memory as people read it: in bytes, in KiB from 1 KiB on, and in MiB from 10 MiB on, rounded
/// down.
std::string memory_text(std::size_t bytes);

}  // namespace convoy
