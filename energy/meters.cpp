#include "energy/meters.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "energy/readers.hpp"

namespace convoy::energy {
namespace {

struct Source {
  const char* name;    ///< beginning of the names of its meters
  const char* people;  ///< its name for people
  Meters (*find)(const Machine&);
};

/// Of two meters that measure the same device equally well the first is chosen.
constexpr std::array<Source, 11> kSources{{
    {"nvml", "NVIDIA GPU (NVML)", find_nvml},
    {"amdgpu", "AMD GPU (amdgpu)", find_amdgpu},
    {"intel-gpu", "Intel GPU (i915, xe)", find_intel_gpu},
    {"rapl", "processor packages (RAPL)", find_rapl},
    {"jetson", "Jetson (INA3221)", find_jetson},
    {"odroid", "Odroid XU3 (INA231)", find_odroid},
    {"pi", "Raspberry Pi (vcgencmd)", find_raspberry_pi},
    {"odpm", "Pixel phone (ODPM)", find_odpm},
    {"battery", "battery", find_power_supply},
    {"battery", "battery of a phone", find_android_battery},
    {"hwmon", "hwmon", find_hwmon},
}};

struct NamedSource {
  const char* prefix;
  MeterRow (*find)(const Machine&, const std::string&);
};
constexpr std::array<NamedSource, 3> kNamedSources{{
    {"shelly:", shelly_plug},
    {"tasmota:", tasmota_plug},
    {"csv:", csv_file},
}};

/// The meters of a source. Where even looking for them is forbidden, one row that says so.
Meters meters_of(const Source& source, const Machine& machine) {
  try {
    return source.find(machine);
  } catch (const Unreadable& error) {
    Meters rows;
    rows.push_back(unusable({.name = source.name, .source = source.people, .device = "machine"},
                            fmt::format("{}; this program may not look there", error.what())));
    return rows;
  }
}

/// A whole machine's meter is better the more of it the meter sees; then sensors are better than averages, and these
/// better than models.
int worth(const MeterInfo& info) { return 3 * static_cast<int>(info.scope) + 2 - static_cast<int>(info.origin); }

void choose(Meters& rows, const std::vector<std::string>& named) {
  std::set<std::string> devices;
  for (const std::string& name : named) {
    const auto row = std::ranges::find_if(rows, [&](const MeterRow& r) { return r.info.name == name; });
    row->chosen = row->meter != nullptr && devices.insert(row->info.device).second;
  }
  for (MeterRow& row : rows) {
    if (devices.contains(row.info.device)) continue;
    MeterRow* best = nullptr;
    for (MeterRow& other : rows) {
      const bool rival = other.meter != nullptr && other.info.by_default && other.info.device == row.info.device;
      if (rival && (best == nullptr || worth(other.info) > worth(best->info))) best = &other;
    }
    if (best == nullptr) continue;
    best->chosen = true;
    devices.insert(row.info.device);
  }
}

}  // namespace

std::vector<MeterRow> list_meters(const Machine& machine, const std::vector<std::string>& named) {
  Meters rows;
  for (const Source& source : kSources) {
    for (MeterRow& row : meters_of(source, machine)) rows.push_back(std::move(row));
  }
  for (const std::string& name : named) {
    if (std::ranges::any_of(rows, [&](const MeterRow& row) { return row.info.name == name; })) continue;
    const auto source = std::ranges::find_if(
        kNamedSources, [&](const NamedSource& s) { return name.starts_with(s.prefix) && name != s.prefix; });
    if (source == kNamedSources.end()) {
      std::vector<std::string> names;
      for (const MeterRow& row : rows) names.push_back(row.info.name);
      fail(
          "there is no meter '{}'; this machine has: {}; and others are named shelly:ADDRESS, tasmota:ADDRESS or "
          "csv:FILE",
          name, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    }
    rows.push_back(source->find(machine, name.substr(std::string_view(source->prefix).size())));
  }
  choose(rows, named);
  return rows;
}

MemberMeter meter_for_member(const Machine& machine, const std::string& named, bool on_gpu) {
  Meters rows = list_meters(machine, named.empty() ? std::vector<std::string>{} : std::vector{named});
  const auto is_gpu = [](const MeterRow& row) { return row.chosen && row.info.device.starts_with("gpu"); };
  MeterRow* found = nullptr;
  for (MeterRow& row : rows) {
    if (row.info.name == named && row.meter == nullptr) fail("--meter {}: {}", named, row.unusable);
    if (row.info.name == named || (named.empty() && row.chosen && row.info.device == "machine")) found = &row;
  }
  if (found == nullptr && on_gpu && std::ranges::count_if(rows, is_gpu) > 1) {
    return {.row = std::nullopt, .why = "this machine has several GPUs with meters; choose one with --meter"};
  }
  for (MeterRow& row : rows) {
    if (found == nullptr && (on_gpu ? is_gpu(row) : row.chosen && row.info.device == "cpu")) found = &row;
  }
  if (found != nullptr) return {.row = std::move(*found), .why = ""};
  return {.row = std::nullopt,
          .why = fmt::format(
              "the machine has no meter that can be used, of all of it or of its {} (convoy-slave --list-meters "
              "says why)",
              on_gpu ? "GPU" : "processor")};
}

std::vector<std::string> sources_not_found(const std::vector<MeterRow>& rows) {
  std::vector<std::string> names;
  for (const Source& source : kSources) {
    const bool found = std::ranges::any_of(rows, [&](const MeterRow& row) {
      return row.info.name.starts_with(source.name) || row.info.name.ends_with(std::string("-") + source.name);
    });
    if (!found) names.push_back(source.people);
  }
  return names;
}

}  // namespace convoy::energy
