// Ctrl-C (SIGINT), SIGTERM and SIGHUP.
#pragma once

#include <atomic>

namespace convoy {

/// Blocks the signals in all threads and hands them to a thread of their own. Call it at the start of main, before any
/// other thread exists. It keeps signal handlers off the threads that compute: AVX-512 kernels of oneDNN 2.6.3 do not
/// survive a handler's frame on their stack (14 of 30 short runs crashed under a timer's signals, and none with the
/// handler on an alternate stack). Until a signal is caught by one of the functions below, it ends the program as
/// usual.
void isolate_stop_signals();

/// From now on the first SIGINT or SIGTERM sets the returned flag, and the second ends the program at once.
const std::atomic<bool>& catch_stop_signals();

/// From now on SIGHUP only sets the returned flag. The reader of the flag resets it.
std::atomic<bool>& catch_hangups();

}  // namespace convoy
