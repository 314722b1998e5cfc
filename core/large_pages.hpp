// Large memory pages for large buffers.
#pragma once

#include <cstddef>

namespace convoy {

/// Asks the system to back `bytes` of fresh memory at `data` with large pages. Call it before anything is written
/// there. With 4 KiB pages, a convolution over maps of tens of megabytes spends about 5 % of its time on address
/// translation (measured with convoy-bench conv). The function leaves small buffers as they are, and does nothing on
/// systems without such a request.
void prefer_large_pages(void* data, std::size_t bytes);

}  // namespace convoy
