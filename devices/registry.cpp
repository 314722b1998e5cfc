// The only file with #if for backends.

#include "devices/registry.hpp"

#include <fmt/ranges.h>

#include <functional>

#include "kernels/eigen_device.hpp"
#include "kernels/reference.hpp"
#if CONVOY_HAS_ONEDNN
#include "kernels/onednn_device.hpp"
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

}  // namespace

std::vector<DeviceRow> list_devices() {
  std::vector<DeviceRow> rows;
  for (const Entry& entry : table()) rows.push_back({entry.name, entry.description, entry.unusable});
  return rows;
}

std::unique_ptr<Device> make_device(const std::string& name, int threads) {
  std::vector<std::string> names;
  for (const Entry& entry : table()) {
    if (entry.name != (name == "auto" ? "cpu" : name)) {
      names.emplace_back(entry.name);
      continue;
    }
    if (*entry.unusable != '\0') fail("device {} cannot be used here: {}", name, entry.unusable);
    return entry.make(threads > 0 ? threads : hardware_threads());
  }
  fail("unknown device '{}'; this program has: auto, {}", name, fmt::join(names, ", "));
}

}  // namespace convoy
