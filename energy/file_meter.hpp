// A meter whose channels are files with a number each, as most of the kernel's sensors are.
#pragma once

#include <string>
#include <vector>

#include "energy/machine.hpp"
#include "energy/meter.hpp"

namespace convoy::energy {

/// A file with a counter or a power, or two files whose product is one.
struct FileChannel {
  std::string name;
  std::string path;
  double unit = 1e-6;   ///< J or W in a step of the number; where `times` is given, in a step of the product
  std::string times;    ///< a second file, such as that of a voltage; may be empty
  double wraps_at = 0;  ///< J after which the counter begins again; 0 if it never does
};

/// Returns the text of a sensor's file. Throws NotMeasurable where it may not be read, with `if_denied`, and where it
/// is gone; throws Unreadable where this reading alone failed.
std::string sensor_text(const Machine& machine, const std::string& path, const std::string& if_denied);

/// Returns the row of a meter that adds these files. `if_denied` tells how to become allowed to read them. The machine
/// must outlive the row.
MeterRow file_meter(const Machine& machine, MeterInfo info, std::vector<FileChannel> channels,
                    const std::string& if_denied);

}  // namespace convoy::energy
