// Ctrl-C and its kin.
#pragma once

#include <atomic>

namespace convoy {

/// Set by the first SIGINT or SIGTERM; the second ends the program at once.
const std::atomic<bool>& interrupt_requested();
void catch_interrupts();

}  // namespace convoy
