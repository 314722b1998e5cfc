// Large memory pages for large buffers.
#pragma once

#include <cstddef>

namespace convoy {

/// Asks the system to back `bytes` of fresh memory at `data` with large pages, before anything is written there. With
/// 4 KiB pages, a convolution over maps of tens of megabytes spends some 5 % of its time on looking addresses up
/// (measured with convoy-bench conv). Small buffers, and systems without such a request, are left as they are.
void prefer_large_pages(void* data, std::size_t bytes);

}  // namespace convoy
