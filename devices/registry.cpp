// The only file with #if for backends.

#include "devices/registry.hpp"

#include <fmt/ranges.h>

#include <charconv>
#include <functional>

#include "kernels/eigen_device.hpp"
#include "kernels/reference.hpp"
#if CONVOY_HAS_ONEDNN
#include "kernels/onednn_device.hpp"
#endif
#if CONVOY_HAS_OPENCL
#include "cl/opencl_device.hpp"
#endif

namespace convoy {
namespace {

struct Entry {
  const char* name;
  const char* description;
  const char* unusable;
  std::function<std::unique_ptr<Device>(int threads)> make;
};

const std::vector<Entry>& table() {
  static const std::vector<Entry> entries = {
#if CONVOY_HAS_ONEDNN
    {"cpu", "this machine's processor, through oneDNN", "", make_onednn_device},
#else
    {"cpu", "this machine's processor, through Eigen (oneDNN is not built in)", "", make_eigen_device},
#endif
    {"eigen", "this machine's processor, through Eigen", "", make_eigen_device},
    {"reference", "plain loops on one core: the oracle of the tests", "", [](int) { return make_reference_device(); }},
    {"reference64", "the same in double precision", "", [](int) { return make_reference64_device(); }},
  };
  return entries;
}

constexpr std::string_view kOpenCl = "opencl";

#if CONVOY_HAS_OPENCL
std::vector<DeviceRow> opencl_rows() {
  try {
    std::vector<DeviceRow> rows;
    for (const ClDeviceId& id : opencl_devices()) {
      rows.push_back({fmt::format("{}:{}", kOpenCl, id.number), describe(id), id.unusable});
    }
    return rows;
  } catch (const Error& error) {
    return {{std::string(kOpenCl), "devices with an OpenCL driver", error.what()}};
  }
}

/// "opencl:2"; "opencl" is the first.
std::unique_ptr<Device> make_opencl(const std::string& name) {
  std::string_view number = std::string_view(name).substr(kOpenCl.size());
  int index = 0;
  if (!number.empty()) {
    number.remove_prefix(1);
    const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (code != std::errc() || end != number.data() + number.size()) fail("device '{}': expected opencl:NUMBER", name);
  }
  return make_opencl_device(index);
}
#else
std::vector<DeviceRow> opencl_rows() {
  return {{std::string(kOpenCl), "devices with an OpenCL driver", "this program was built without OpenCL's headers"}};
}

std::unique_ptr<Device> make_opencl(const std::string& name) {
  fail("device {} cannot be used here: {}", name, opencl_rows().front().unusable);
}
#endif

}  // namespace

std::vector<DeviceRow> list_devices() {
  std::vector<DeviceRow> rows;
  for (const Entry& entry : table()) rows.push_back({entry.name, entry.description, entry.unusable});
  for (DeviceRow& row : opencl_rows()) rows.push_back(std::move(row));
  return rows;
}

std::unique_ptr<Device> make_device(const std::string& name, int threads) {
  if (name == kOpenCl || name.starts_with(fmt::format("{}:", kOpenCl))) return make_opencl(name);
  std::vector<std::string> names;
  for (const Entry& entry : table()) {
    if (entry.name != (name == "auto" ? "cpu" : name)) {
      names.emplace_back(entry.name);
      continue;
    }
    if (*entry.unusable != '\0') fail("device {} cannot be used here: {}", name, entry.unusable);
    return entry.make(threads > 0 ? threads : hardware_threads());
  }
  fail("unknown device '{}'; this program has: auto, {}, opencl:NUMBER", name, fmt::join(names, ", "));
}

}  // namespace convoy
