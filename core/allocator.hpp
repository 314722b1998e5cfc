#pragma once

namespace convoy {

/// Tells the C library to keep large freed blocks instead of returning them to the system. Maps and frames of the same
/// sizes are allocated again in every step, and fresh memory from the system costs a page fault for every 4 KiB; the
/// faults were measured as half of the time to move a tensor (convoy-bench transport). Call this function at the start
/// of a program. It does nothing where the C library is not glibc.
void keep_freed_memory();

}  // namespace convoy
