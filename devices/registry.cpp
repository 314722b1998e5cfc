// The only file with #if for backends.

#include "devices/registry.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <mutex>

#include "core/output.hpp"
#include "core/thread_team.hpp"
#include "devices/calibrate.hpp"
#include "devices/check_device.hpp"
#include "devices/paced_device.hpp"
#include "kernels/eigen/device.hpp"
#include "kernels/reference/device.hpp"
#if CONVOY_HAS_ONEDNN
#include "kernels/onednn/device.hpp"
#endif
#if CONVOY_HAS_OPENCL
#include "cl/clblast.hpp"
#include "cl/opencl_device.hpp"
#endif
#if CONVOY_HAS_CUDA
#include "devices/cuda.hpp"
#endif

namespace convoy {
namespace {

struct Entry {
  const char* name;
  const char* description;
  bool has_bf16;
  std::function<std::unique_ptr<Device>(int threads, bool bf16)> make;
};

constexpr std::string_view kAuto = "auto";
constexpr std::string_view kCheck = "check:";
constexpr std::string_view kProcessor = "cpu";

const std::vector<Entry>& table() {
  const auto eigen = [](int threads, bool) { return make_eigen_device(threads); };
  static const std::vector<Entry> entries = {
#if CONVOY_HAS_ONEDNN
    {"cpu", "this machine's processor, through oneDNN", true, make_onednn_device},
#else
    {"cpu", "this machine's processor, through Eigen (oneDNN is not built in)", false, eigen},
#endif
    {"eigen", "this machine's processor, through Eigen", false, eigen},
    {"reference", "plain loops on one core: the oracle of the tests", false,
     [](int, bool) { return make_reference_device(); }},
    {"reference64", "plain loops in double precision", false, [](int, bool) { return make_reference64_device(); }},
  };
  return entries;
}

constexpr std::string_view kOpenCl = "opencl";
constexpr std::string_view kClblast = "clblast";
constexpr std::string_view kCuda = "cuda";
constexpr std::string_view kCublas = "cublas";

bool is_kind(std::string_view name, std::string_view kind) {
  return name == kind || name.starts_with(fmt::format("{}:", kind));
}

/// Returns N of "opencl:N"; "opencl" alone is the first device.
[[maybe_unused]] int number_of(std::string_view name, std::string_view kind) {
  if (name == kind) return 0;
  const std::string_view text = name.substr(kind.size() + 1);
  int number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) fail("device '{}': expected {}:NUMBER", name, kind);
  return number;
}

#if CONVOY_HAS_OPENCL
/// Each device has a second row with all convolutions by CLBlast, for benchmarking.
std::vector<DeviceRow> opencl_rows() {
  try {
    std::vector<DeviceRow> rows;
    for (const ClDeviceId& id : opencl_devices()) {
      rows.push_back({fmt::format("{}:{}", kOpenCl, id.number), describe(id), id.unusable, !id.processor});
      if (!id.unusable.empty() || !clblast_missing().empty()) continue;
      rows.push_back({fmt::format("{}:{}", kClblast, id.number), describe(id) + kByClblast, ""});
    }
    return rows;
  } catch (const Error& error) {
    return {{std::string(kOpenCl), "devices with an OpenCL driver", error.what()}};
  }
}

std::unique_ptr<Device> make_opencl(const std::string& name, bool clblast, const DeviceOptions& options) {
  return make_opencl_device(
      number_of(name, clblast ? kClblast : kOpenCl),
      {.convolutions = clblast ? ClConvolutions::products : ClConvolutions::faster, .half = options.fp16});
}
bool opencl_has_own_memory(int number) {
  const std::vector<ClDeviceId> devices = opencl_devices();
  if (number >= static_cast<int>(devices.size())) return false;
  const ClDeviceId& id = devices[number];
  return !id.processor && device_info<cl_bool>(id.device, CL_DEVICE_HOST_UNIFIED_MEMORY) == CL_FALSE;
}
#else
bool opencl_has_own_memory(int) { return false; }

std::vector<DeviceRow> opencl_rows() {
  return {{std::string(kOpenCl), "devices with an OpenCL driver", "this program was built without OpenCL's headers"}};
}

std::unique_ptr<Device> make_opencl(const std::string& name, bool, const DeviceOptions&) {
  fail("device {} cannot be used: {}", name, opencl_rows().front().unusable);
}
#endif

#if CONVOY_HAS_CUDA
/// Each GPU has one row for each library that may compute its convolutions; cuBLAS is for benchmarking.
std::vector<DeviceRow> cuda_rows() {
  try {
    std::vector<DeviceRow> rows;
    for (const CudaRow& gpu : cuda_gpus()) {
      rows.push_back({fmt::format("{}:{}", kCuda, gpu.number), gpu.description, gpu.unusable, true});
      if (!gpu.unusable.empty() || !cuda_has_cudnn()) continue;
      rows.push_back({fmt::format("{}:{}", kCublas, gpu.number), gpu.description + ", without cuDNN", ""});
    }
    return rows;
  } catch (const Error& error) {
    return {{std::string(kCuda), "NVIDIA GPUs", error.what()}};
  }
}

std::unique_ptr<Device> make_gpu(const std::string& name, bool cudnn, const DeviceOptions& options) {
  const int number = number_of(name, cudnn ? kCuda : kCublas);
  return make_cuda({.name = name, .number = number, .cudnn = cudnn, .tf32 = options.tf32});
}
#else
std::vector<DeviceRow> cuda_rows() {
  return {{std::string(kCuda), "NVIDIA GPUs", "this program was built without CUDA's compiler"}};
}

std::unique_ptr<Device> make_gpu(const std::string& name, bool, const DeviceOptions&) {
  fail("device {} cannot be used: {}", name, cuda_rows().front().unusable);
}
#endif

[[noreturn]] void refuse_bf16(const std::string& name) {
  fail("device {} cannot compute in bfloat16; omit --compute bf16, or use the device cpu of a program with oneDNN",
       name);
}

/// Returns the device with this name, which is neither "auto" nor "check:...".
std::unique_ptr<Device> make_named(const std::string& name, const DeviceOptions& options) {
  const auto is = [&](std::string_view kind) { return is_kind(name, kind); };
  if (options.bf16 && (is(kOpenCl) || is(kClblast) || is(kCuda) || is(kCublas) || is_paced(name))) refuse_bf16(name);
  if (is_paced(name)) return std::make_unique<PacedDevice>(name.substr(name.find(':') + 1));
  if (is(kOpenCl) || is(kClblast)) return make_opencl(name, is(kClblast), options);
  if (is(kCuda)) return make_gpu(name, true, options);
  if (is(kCublas)) return make_gpu(name, false, options);
  std::vector<std::string> names;
  for (const Entry& entry : table()) {
    if (entry.name == name) {
      if (options.bf16 && !entry.has_bf16) refuse_bf16(name);
      return entry.make(options.threads > 0 ? options.threads : hardware_threads(), options.bf16);
    }
    names.emplace_back(entry.name);
  }
  fail("unknown device '{}'; the devices are auto, {}, cuda:NUMBER, opencl:NUMBER, check:DEVICE,DEVICE, paced:GFLOPS",
       name, fmt::join(names, ", "));
}

std::unique_ptr<Device> make_fastest(const DeviceOptions& options) {
  std::unique_ptr<Device> fastest = make_named(std::string(kProcessor), options);
  if (options.bf16) return fastest;  // only the processor computes in bfloat16
  double best = 0.0;
  for (const DeviceRow& row : list_devices()) {
    if (!row.automatic || !row.unusable.empty() || row.name == kProcessor) continue;
    if (best == 0.0) best = measure_speed(*fastest);
    try {
      std::unique_ptr<Device> device = make_named(row.name, options);
      const double speed = measure_speed(*device);
      if (speed <= best) continue;
      best = speed;
      fastest = std::move(device);
    } catch (const Error& error) {
      put(stderr, fmt::format("device {} is skipped: {}\n", row.name, error.what()));
    }
  }
  return fastest;
}

/// Returns where the first device of a list ends.
std::size_t end_of_first(std::string_view list) {
  std::size_t end = list.find(',');
  if (list.starts_with(kCheck) && end != std::string_view::npos) end = list.find(',', end + 1);
  return std::min(end, list.size());
}

}  // namespace

std::vector<DeviceRow> list_devices() {
  std::vector<DeviceRow> rows;
  for (const Entry& entry : table()) rows.push_back({entry.name, entry.description, "", entry.name == kProcessor});
  for (DeviceRow& row : cuda_rows()) rows.push_back(std::move(row));
  for (DeviceRow& row : opencl_rows()) rows.push_back(std::move(row));
  return rows;
}

bool is_gpu(const std::string& name) {
  return name.starts_with("cuda") || name.starts_with("opencl") || name.starts_with("clblast");
}

bool has_memory_of_its_own(const Device& device) {
  const std::string& name = device.info().name;
  if (device.info().paced) return false;
  for (const std::string_view kind : {kCuda, kCublas}) {
    if (name.starts_with(kind)) return true;
  }
  for (const std::string_view kind : {kOpenCl, kClblast}) {
    if (name.starts_with(kind)) return opencl_has_own_memory(number_of(name, kind));
  }
  return false;
}

std::vector<std::string> split_devices(const std::string& list) {
  std::vector<std::string> names;
  std::string_view rest = list;
  while (true) {
    const std::size_t end = end_of_first(rest);
    if (end == 0) fail("--device '{}': a name is missing; write for example opencl:0,cpu", list);
    const std::string name(rest.substr(0, end));
    if (std::ranges::find(names, name) != names.end())
      fail("--device '{}': {} is named twice; name each device once", list, name);
    names.push_back(name);
    if (end == rest.size()) return names;
    rest.remove_prefix(end + 1);
  }
}

std::unique_ptr<Device> make_device(const std::string& name, const DeviceOptions& options) {
  // PoCL crashes where two threads look for devices for the first time.
  static std::recursive_mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (name == kAuto) return make_fastest(options);
  if (!name.starts_with(kCheck)) return make_named(name, options);
  const std::vector<std::string> pair = split_devices(name.substr(kCheck.size()));
  if (pair.size() != 2) fail("device '{}': expected check:DEVICE,DEVICE, for example check:cpu,opencl:0", name);
  if (std::ranges::any_of(pair, is_paced))
    fail("device '{}': a paced device computes nothing that could be checked", name);
  return make_check_device(make_device(pair[0], options), make_device(pair[1], options));
}

}  // namespace convoy
