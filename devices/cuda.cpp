#include "devices/cuda.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "devices/cuda_libraries.hpp"

namespace convoy {
namespace {

constexpr const char* kModule = "convoy-cuda.so";

struct Module {
  decltype(&convoy_cuda_version) version = nullptr;
  decltype(&convoy_cuda_has_cudnn) has_cudnn = nullptr;
  decltype(&convoy_cuda_list) list = nullptr;
  decltype(&convoy_cuda_make) make = nullptr;
  decltype(&convoy_cuda_bare) bare = nullptr;
};

const char* named_module() { return std::getenv("CONVOY_CUDA_MODULE"); }

/// Returns the possible places of the module: beside the program, in the folder above (for tests), or installed.
std::vector<std::string> places() {
  if (named_module() != nullptr) return {named_module()};
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  return {folder / kModule, folder.parent_path() / kModule, folder.parent_path() / "lib" / "convoy" / kModule};
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    fail("{} lacks the function {}: it belongs to another version of Convoy; build both together", kModule, name);
}

/// Fails where there is no NVIDIA driver, before CUDA's libraries take hundreds of MiB of memory.
void check_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) fail("NVIDIA's driver is not installed: {}", dlerror());
  dlclose(driver);
}

Module open_module() {
  std::string tried;
  for (const std::string& place : places()) {
    if (!std::filesystem::exists(place)) {
      tried += (tried.empty() ? "" : ", ") + place;
      continue;
    }
    if (named_module() == nullptr) check_driver();
    // The module is never closed, because CUDA's threads do not survive its closing.
    void* library = open_with_libraries(place, cuda_library_folders());
    Module module;
    find(library, "convoy_cuda_version", module.version);
    if (module.version() != std::string(CONVOY_VERSION)) {
      fail("{} has version {}, but this program has version {}; build both together", place, module.version(),
           CONVOY_VERSION);
    }
    find(library, "convoy_cuda_has_cudnn", module.has_cudnn);
    find(library, "convoy_cuda_list", module.list);
    find(library, "convoy_cuda_make", module.make);
    find(library, "convoy_cuda_bare", module.bare);
    return module;
  }
  fail(
      "{} was not found in {}; it is built where CUDA's compiler is installed (-DCONVOY_CUDA=ON reports what is "
      "missing)",
      kModule, tried);
}

const Module& module() {
  static const Module opened = open_module();
  return opened;
}

}  // namespace

std::vector<CudaRow> cuda_gpus() {
  std::vector<CudaRow> rows;
  module().list(rows);
  return rows;
}

bool cuda_has_cudnn() { return module().has_cudnn(); }

std::unique_ptr<Device> make_cuda(const CudaRequest& request) {
  std::unique_ptr<Device> device;
  module().make(request, device);
  return device;
}

BareLayouts make_bare_cudnn(const BareCudnnRequest& request) {
  BareLayouts layouts;
  module().bare(request, layouts);
  return layouts;
}

}  // namespace convoy
