// Ctrl-C (SIGINT), SIGTERM and SIGHUP.
#pragma once

#include <atomic>

namespace convoy {

/// Blocks the signals in every thread to come and hands them to a thread of their own; for the start of main, before
/// any other thread. No handler ever runs on a thread that computes: oneDNN 2.6.3's kernels for AVX-512 do not
/// survive a handler's frame on their stack (14 of 30 short runs broke under a timer's signals, none with the handler
/// on a stack of its own). Until they are caught each signal ends the program as if it had not been touched.
void isolate_stop_signals();

/// From now on the first SIGINT or SIGTERM sets the flag; the second ends the program at once.
const std::atomic<bool>& catch_stop_signals();

/// From now on SIGHUP sets the flag, and no more; whoever sees it resets it.
std::atomic<bool>& catch_hangups();

}  // namespace convoy
