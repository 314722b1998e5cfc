// NVIDIA's management library, loaded at run time. This file declares what it needs, after NVIDIA's reference of NVML,
// so building needs no driver.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <memory>

#include "core/text.hpp"
#include "energy/readers.hpp"

namespace convoy::energy {
namespace {

using NvmlDevice = void*;
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlNoPermission = 4;
constexpr unsigned kMigOn = 1;

/// nvmlPciInfo_t of version 3.
struct NvmlPci {
  std::array<char, 16> old_bus;
  unsigned domain, bus, device, device_id, subsystem_id;
  std::array<char, 32> bus_id;
};
static_assert(sizeof(NvmlPci) == 68);

/// nvmlFieldValue_t. The value is a union of 8 bytes.
struct NvmlField {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency;
  int type;
  int code;
  union {
    double real;
    unsigned small;
    unsigned long long large;
  } value;
};
static_assert(sizeof(NvmlField) == 40);

constexpr unsigned kFieldAveragePower = 185;  // mW
constexpr unsigned kFieldInstantPower = 186;  // mW

/// The functions of the library, which stays loaded.
struct Nvml {
  int (*init)();
  const char* (*text)(int code);
  int (*count)(unsigned* count);
  int (*device)(unsigned index, NvmlDevice* device);
  int (*pci)(NvmlDevice device, NvmlPci* pci);
  int (*name)(NvmlDevice device, char* name, unsigned room);
  int (*energy)(NvmlDevice device, unsigned long long* millijoules);
  int (*power)(NvmlDevice device, unsigned* milliwatts);
  int (*fields)(NvmlDevice device, int count, NvmlField* fields);
  int (*mig)(NvmlDevice device, unsigned* current, unsigned* pending);
};

template <class Function>
bool load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// Returns nothing, with the reason in `why`, if the library is there but unusable; `why` stays empty if it is missing.
std::shared_ptr<const Nvml> load_nvml(const std::string& file, std::string& why) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto nvml = std::make_shared<Nvml>();
  const bool whole =
      load(library, "nvmlInit_v2", nvml->init) && load(library, "nvmlErrorString", nvml->text) &&
      load(library, "nvmlDeviceGetCount_v2", nvml->count) &&
      load(library, "nvmlDeviceGetHandleByIndex_v2", nvml->device) &&
      load(library, "nvmlDeviceGetPciInfo_v3", nvml->pci) && load(library, "nvmlDeviceGetName", nvml->name) &&
      load(library, "nvmlDeviceGetTotalEnergyConsumption", nvml->energy) &&
      load(library, "nvmlDeviceGetPowerUsage", nvml->power) &&
      load(library, "nvmlDeviceGetFieldValues", nvml->fields) && load(library, "nvmlDeviceGetMigMode", nvml->mig);
  if (!whole) {
    why = fmt::format("{} is too old; install a driver of version 418 or newer", file);
  } else if (const int code = nvml->init(); code != kNvmlSuccess) {
    why = fmt::format("NVML does not start: {}; see whether nvidia-smi works", nvml->text(code));
  }
  return why.empty() ? nvml : nullptr;
}

/// The counter of a GPU with the power as a check, or the power alone on GPUs without a counter (before Volta).
class NvmlMeter : public Meter {
 public:
  NvmlMeter(std::shared_ptr<const Nvml> nvml, NvmlDevice device, bool counts)
      : nvml_(std::move(nvml)), device_(device), counts_(counts) {}

  std::vector<Reading> read() override {
    const std::optional<double> watts = power();
    if (!counts_) {
      if (!watts) fail("NVML gives no power");
      return {{.values = {*watts}}};
    }
    unsigned long long millijoules = 0;
    check(nvml_->energy(device_, &millijoules), "nvmlDeviceGetTotalEnergyConsumption");
    return {{.values = {1e-3 * static_cast<double>(millijoules)}, .check = watts}};
  }

 private:
  void check(int code, const char* function) const {
    if (code == kNvmlSuccess) return;
    const std::string text = fmt::format("{}: {}", function, nvml_->text(code));
    if (code == kNvmlNoPermission) throw NotMeasurable(text + "; run as root, or allow this user to read the GPU");
    throw Error(text);
  }

  /// The power now if the GPU has it, else over a second. nvmlDeviceGetPowerUsage is the one on some GPUs and the other
  /// on others, so it comes last.
  std::optional<double> power() const {
    std::array<NvmlField, 2> fields{};
    fields[0].field = kFieldInstantPower;
    fields[1].field = kFieldAveragePower;
    if (nvml_->fields(device_, static_cast<int>(fields.size()), fields.data()) == kNvmlSuccess) {
      for (const NvmlField& field : fields) {
        if (field.code == kNvmlSuccess) return 1e-3 * field.value.small;
      }
    }
    unsigned milliwatts = 0;
    if (nvml_->power(device_, &milliwatts) == kNvmlSuccess) return 1e-3 * milliwatts;
    return std::nullopt;
  }

  std::shared_ptr<const Nvml> nvml_;
  NvmlDevice device_;
  bool counts_;
};

/// "00000000:01:00.0" of NVML is "0000:01:00.0" in the kernel's words.
std::string place_of(const NvmlPci& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

MeterRow meter_of(const std::shared_ptr<const Nvml>& nvml, unsigned index) {
  MeterInfo info{.name = fmt::format("nvml:{}", index), .source = "NVML", .device = "gpu", .scope = Scope::gpu};
  NvmlDevice device = nullptr;
  if (const int code = nvml->device(index, &device); code != kNvmlSuccess) {
    return unusable(std::move(info), fmt::format("the driver gives no access to this GPU: {}", nvml->text(code)));
  }
  NvmlPci pci{};
  if (nvml->pci(device, &pci) == kNvmlSuccess) info.device = "gpu " + place_of(pci);
  std::array<char, 97> name{};
  if (nvml->name(device, name.data(), name.size() - 1) == kNvmlSuccess) info.source += ", " + printable(name.data());
  unsigned mig = 0;
  unsigned pending = 0;
  if (nvml->mig(device, &mig, &pending) == kNvmlSuccess && mig == kMigOn) {
    return unusable(std::move(info),
                    "the GPU is split into parts (MIG), and its energy is that of all parts together; turn "
                    "MIG off: sudo nvidia-smi -mig 0");
  }
  unsigned long long millijoules = 0;
  const bool counts = nvml->energy(device, &millijoules) == kNvmlSuccess;
  info.quantity = counts ? Quantity::joules : Quantity::watts;
  info.source += counts ? ", energy counter, compared with the power" : ", power; this GPU has no energy counter";
  info.origin = counts ? Origin::measured : Origin::smoothed;
  info.averaging = counts ? 0 : 1;
  info.refresh = 0.1;
  info.channels = {{"GPU"}};
  return tried(std::move(info), std::make_unique<NvmlMeter>(nvml, device, counts));
}

}  // namespace

Meters find_nvml(const Machine& machine) {
  Meters found;
  std::string why;
  const auto nvml = load_nvml(machine.nvml_library(), why);
  if (!why.empty())
    found.push_back(unusable({.name = "nvml", .source = "NVML", .device = "gpu", .scope = Scope::gpu}, why));
  if (nvml == nullptr) return found;
  unsigned count = 0;
  nvml->count(&count);
  for (unsigned index = 0; index < std::min(count, 64U); ++index) found.push_back(meter_of(nvml, index));
  return found;
}

}  // namespace convoy::energy
