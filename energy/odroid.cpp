#include <array>
#include <utility>

#include "energy/file_meter.hpp"
#include "energy/readers.hpp"

namespace convoy::energy {
namespace {

const std::string kIna231 = "/sys/bus/i2c/drivers/INA231";

/// The sensors' addresses on the bus, by the kernel of Hardkernel.
const std::array<std::pair<const char*, const char*>, 4> kOdroidRails{
    {{"0040", "big cores"}, {"0041", "memory"}, {"0044", "GPU"}, {"0045", "little cores"}}};

std::string rail_at(const std::string& sensor) {
  for (const auto& [address, rail] : kOdroidRails) {
    if (sensor.ends_with(address)) return rail;
  }
  return sensor;
}

}  // namespace

Meters find_odroid(const Machine& machine) {
  std::vector<FileChannel> channels;
  std::string off;
  double refresh = 0;
  for (const std::string& sensor : names_like(machine, kIna231, "")) {
    const std::string folder = kIna231 + "/" + sensor;
    const std::string enable = text_if_any(machine, folder + "/enable");
    if (enable.empty()) continue;  // an entry such as "bind"
    if (enable == "0") off = folder + "/enable";
    refresh = std::max(refresh, 1e-6 * number_if_any(machine, folder + "/update_period").value_or(0));
    channels.push_back({.name = rail_at(sensor), .path = folder + "/sensor_W", .unit = 1});
  }
  Meters found;
  if (channels.empty()) return found;
  const std::string fix = fmt::format("run: echo 1 | sudo tee {}/*/enable", kIna231);
  const auto add = [&](MeterInfo info, const std::vector<FileChannel>& of) {
    info.refresh = refresh;
    if (off.empty()) {
      found.push_back(file_meter(machine, std::move(info), of, "run as root"));
    } else {
      found.push_back(unusable(std::move(info), fmt::format("the sensor is off ({} is 0); {}", off, fix)));
    }
  };
  add({.name = "odroid", .source = "INA231: cores, GPU and memory", .device = "machine", .scope = Scope::rail},
      channels);
  for (const FileChannel& channel : channels) {
    add({.name = "odroid:" + channel.name,
         .source = "INA231: " + channel.name,
         .device = "rail " + channel.name,
         .scope = Scope::rail,
         .by_default = false},
        {channel});
  }
  return found;
}

}  // namespace convoy::energy
