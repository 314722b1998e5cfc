#pragma once

namespace convoy {

/// Tells the C library to keep large blocks that are freed. Maps and frames of the same sizes come again every step;
/// handed back to the system, each would cost a page fault for every 4 KiB when it comes again: measured as half of the
/// time to move a tensor (convoy-bench transport). For the start of a program. Does nothing where the C library is not
/// glibc.
void keep_freed_memory();

}  // namespace convoy
