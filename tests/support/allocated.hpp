// The memory that this process has allocated, for tests of what computations take.
#pragma once

#include <malloc.h>

namespace convoy {

/// Returns the bytes that are allocated; under a sanitizer, whose allocator does not count them, always the same.
inline double allocated() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

}  // namespace convoy
