// What a test finds on this machine besides the processor: OpenCL, and the slave for aarch64 with qemu.
#pragma once

#include <string>

#include "devices/registry.hpp"
#include "tests/support/process.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {

inline const std::string kSysroot = source_folder() + "/build/aarch64-sysroot";
inline const std::string kAarch64Slave = source_folder() + "/build/aarch64/bin/convoy-slave";

inline bool on_path(const std::string& program) {
  return Process({"/usr/bin/env", "which", program}).wait(std::chrono::seconds(10)) == 0;
}

inline bool has_opencl() {
  for (const DeviceRow& row : list_devices()) {
    if (row.name == "opencl:0") return row.unusable.empty();
  }
  return false;
}

}  // namespace convoy
