#include "core/allocator.hpp"

#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace convoy {

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kBytes = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kBytes);
  mallopt(M_TRIM_THRESHOLD, kBytes);
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

}  // namespace convoy
