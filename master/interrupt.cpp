#include "master/interrupt.hpp"

#include <csignal>

namespace convoy {
namespace {

std::atomic<bool> requested{false};

void request(int signal) {
  requested = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

const std::atomic<bool>& interrupt_requested() { return requested; }

void catch_interrupts() {
  std::signal(SIGINT, request);
  std::signal(SIGTERM, request);
}

}  // namespace convoy
