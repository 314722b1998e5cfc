// A library in the place of NVIDIA's, with GPUs of several kinds. The same dlopen loads it. It declares functions and
// structures as NVIDIA's reference of NVML does.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/energy/fake_gpu.hpp"

extern "C" {

struct FakePci {
  char old_bus[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

struct FakeField {
  unsigned field, scope;
  long long timestamp, latency;
  int type, code;
  union {
    double real;
    unsigned small;
    unsigned long long large;
  } value;
};

FakeGpu fake_gpus[5] = {
    {"Fake H100", 5e6, 81000, 80000, 79000, 0, 0},  // everything
    {"Fake P100", -1, -1, -1, 42000, 0, 0},         // no counter
    {"Fake A100 in parts", 7e6, 90000, 90000, 90000, 1, 0},
    {"Fake L4", 9e6, -1, 33000, 31000, 0, 0},  // no power now
    {"Fake T4", 3e6, -1, -1, -1, 0, 0},        // a counter alone
};
int fake_init_result = 0;

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;

int nvmlInit_v2() { return fake_init_result; }
const char* nvmlErrorString(int code) {
  return code == 9 ? "Driver Not Loaded" : code == 4 ? "Insufficient Permissions" : "Not Supported";
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 5;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &fake_gpus[index];
  return kSuccess;
}
int nvmlDeviceGetPciInfo_v3(void* device, FakePci* pci) {
  *pci = {};
  pci->bus = 0x21 + static_cast<unsigned>(static_cast<FakeGpu*>(device) - fake_gpus);
  return kSuccess;
}
int nvmlDeviceGetName(void* device, char* name, unsigned room) {
  std::snprintf(name, room, "%s", static_cast<FakeGpu*>(device)->name);
  return kSuccess;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  const FakeGpu& gpu = *static_cast<FakeGpu*>(device);
  if (gpu.failure != 0) return gpu.failure;
  if (gpu.millijoules < 0) return kNotSupported;
  *millijoules = static_cast<unsigned long long>(gpu.millijoules);
  return kSuccess;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  const FakeGpu& gpu = *static_cast<FakeGpu*>(device);
  if (gpu.usage_milliwatts < 0) return kNotSupported;
  *milliwatts = static_cast<unsigned>(gpu.usage_milliwatts);
  return kSuccess;
}
int nvmlDeviceGetFieldValues(void* device, int count, FakeField* fields) {
  const FakeGpu& gpu = *static_cast<FakeGpu*>(device);
  for (int i = 0; i < count; ++i) {
    const double value = fields[i].field == 186   ? gpu.instant_milliwatts
                         : fields[i].field == 185 ? gpu.average_milliwatts
                                                  : -1;
    fields[i].code = value < 0 ? kNotSupported : kSuccess;
    if (value >= 0) fields[i].value.small = static_cast<unsigned>(value);
  }
  return kSuccess;
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *current = *pending = static_cast<unsigned>(static_cast<FakeGpu*>(device)->mig);
  return kSuccess;
}
}
