#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <fstream>

#include "devices/registry.hpp"

namespace convoy {

std::size_t available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::size_t kib = 0;
  std::string unit;
  while (meminfo >> key >> kib >> unit) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 2;
}

std::size_t default_memory(const DeviceInfo& info) {
  const std::size_t whole = info.memory > 0 ? info.memory : available_memory();
  return whole / 4 * 3;
}

std::size_t parse_memory(const std::string& text) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  std::string unit(rest, end);
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  double factor = 0.0;
  if (unit.empty() || unit == "B") factor = 1.0;
  if (unit == "K" || unit == "KB" || unit == "KiB") factor = 0x1.0p10;
  if (unit == "M" || unit == "MB" || unit == "MiB") factor = 0x1.0p20;
  if (unit == "G" || unit == "GB" || unit == "GiB") factor = 0x1.0p30;
  if (unit == "T" || unit == "TB" || unit == "TiB") factor = 0x1.0p40;
  const double bytes = value * factor;
  if (error == std::errc() && bytes > 0x1.0p50) fail("'{}' is more memory than the limit of 1024TiB", text);
  if (error != std::errc() || !(bytes >= 1.0)) {
    fail("'{}' is not an amount of memory; write a number and KiB, MiB, GiB or TiB, for example 2GiB", text);
  }
  return static_cast<std::size_t>(bytes);
}

std::string memory_text(std::size_t bytes) {
  if (bytes < 1U << 10) return fmt::format("{} bytes", bytes);
  if (bytes < 10U << 20) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} MiB", bytes >> 20);
}

}  // namespace convoy
