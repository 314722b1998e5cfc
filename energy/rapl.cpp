#include <algorithm>

#include "energy/file_meter.hpp"
#include "energy/readers.hpp"

namespace convoy::energy {
namespace {

const std::string kPowercap = "/sys/class/powercap";

/// Only root may read the counters since CVE-2020-8694.
const std::string kPowercapDenied =
    "run sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj after each start, or put into "
    "/etc/udev/rules.d/99-rapl.rules the line ACTION==\"add\", SUBSYSTEM==\"powercap\", KERNEL==\"intel-rapl:*\", "
    "RUN+=\"/bin/chmod a+r /sys%p/energy_uj\"; other users' programs can then see how much this machine computes";

/// No package takes more W; the time in which one wraps follows.
constexpr double kMostPackageWatts = 1000;

}  // namespace

Meters find_rapl(const Machine& machine) {
  MeterInfo info{.name = "rapl",
                 .source = "RAPL of",
                 .device = "cpu",
                 .scope = Scope::package,
                 .origin = Origin::measured,
                 .quantity = Quantity::joules,
                 .refresh = 0.001};
  std::vector<FileChannel> channels;
  std::string without_range;
  // Zones "intel-rapl:0:0" lie within "intel-rapl:0", the platform's zone "psys" holds the packages, and zones of
  // "intel-rapl-mmio" show the same packages again, so packages alone are added.
  for (const std::string& zone : names_like(machine, kPowercap, "intel-rapl:")) {
    const std::string folder = kPowercap + "/" + zone;
    const std::string name = text_if_any(machine, folder + "/name");
    if (std::ranges::count(zone, ':') != 1 || !name.starts_with("package-")) continue;
    const double range = 1e-6 * number_if_any(machine, folder + "/max_energy_range_uj").value_or(0);
    if (range <= 0) without_range = folder + "/max_energy_range_uj";
    info.source += (channels.empty() ? " " : ", ") + name;
    info.longest_gap = std::min(info.longest_gap, range / kMostPackageWatts);
    channels.push_back({.name = name, .path = folder + "/energy_uj", .wraps_at = range});
  }
  Meters found;
  if (!without_range.empty()) {
    found.push_back(unusable(std::move(info), without_range + " does not say when the counter wraps"));
  } else if (!channels.empty()) {
    found.push_back(file_meter(machine, std::move(info), std::move(channels), kPowercapDenied));
  }
  return found;
}

}  // namespace convoy::energy
