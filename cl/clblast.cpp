#include "cl/clblast.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "core/error.hpp"

namespace convoy {
namespace {

// Constants of CLBlast's C interface, which has not changed since its first version.
constexpr int kRowMajor = 101;
constexpr int kAsItIs = 111;
constexpr int kTransposed = 112;
using Sgemm = int (*)(int layout, int a_transpose, int b_transpose, std::size_t m, std::size_t n, std::size_t k,
                      float alpha, cl_mem a, std::size_t a_offset, std::size_t a_row, cl_mem b, std::size_t b_offset,
                      std::size_t b_row, float beta, cl_mem c, std::size_t c_offset, std::size_t c_row,
                      cl_command_queue* queue, cl_event* event);

struct Library {
  Sgemm sgemm = nullptr;
  std::string missing;
};

Library open_library() {
  const char* named = std::getenv("CONVOY_CLBLAST_LIBRARY");
  void* handle = dlopen(named != nullptr ? named : "libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {nullptr, dlerror()};
  const auto sgemm = reinterpret_cast<Sgemm>(dlsym(handle, "CLBlastSgemm"));
  if (sgemm == nullptr) return {nullptr, "the library has no function CLBlastSgemm"};
  // CLBlast is linked with an OpenCL library; handles from another one are invalid there.
  if (dlsym(handle, "clGetPlatformIDs") != reinterpret_cast<void*>(opencl().clGetPlatformIDs)) {
    return {nullptr, "CLBlast is linked with another OpenCL library than the one that this program loaded"};
  }
  return {sgemm, ""};
}

const Library& library() {
  static const Library opened = open_library();
  return opened;
}

}  // namespace

const std::string& clblast_missing() { return library().missing; }

void multiply(ClContext& context, const ClProduct& p, const ClBuffer& a, const ClBuffer& b, const ClBuffer& c) {
  const auto row = [](bool transposed, int rows, int columns) {
    return static_cast<std::size_t>(transposed ? rows : columns);
  };
  context.enqueue_other("CLBlast's matrix product", [&](cl_command_queue* queue, cl_event* event) {
    const int code =
        library().sgemm(kRowMajor, p.transpose_a ? kTransposed : kAsItIs, p.transpose_b ? kTransposed : kAsItIs,
                        static_cast<std::size_t>(p.m), static_cast<std::size_t>(p.n), static_cast<std::size_t>(p.k),
                        1.0F, a.memory(), 0, row(p.transpose_a, p.m, p.k), b.memory(), 0, row(p.transpose_b, p.k, p.n),
                        p.beta, c.memory(), 0, static_cast<std::size_t>(p.n), queue, event);
    if (code != 0)
      fail("CLBlast cannot compute a product of {} x {} x {} on {}: status {}", p.m, p.k, p.n, context.device().name,
           code);
  });
}

}  // namespace convoy
