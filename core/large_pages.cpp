#include "core/large_pages.hpp"

#ifdef __linux__
#include <sys/mman.h>

#include <cstdint>
#endif

namespace convoy {

void prefer_large_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#ifdef __linux__
  constexpr std::size_t kPage = std::size_t{2} << 20U;
  if (bytes < 2 * kPage) return;
  // The range covers whole large pages only, because other allocations share the pages at both ends.
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (address + kPage - 1) / kPage * kPage;
  const std::uintptr_t end = (address + bytes) / kPage * kPage;
  // The call is advice: where the kernel ignores it, the memory works as before.
  static_cast<void>(madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE));
#endif
}

}  // namespace convoy
