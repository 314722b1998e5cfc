#include "core/stop_signal.hpp"

#include <csignal>
#include <cstdlib>
#include <thread>

#include "core/error.hpp"

namespace convoy {
namespace {

std::atomic<bool> isolated{false};
std::atomic<bool> caught{false};
std::atomic<bool> requested{false};
std::atomic<bool> hangups_caught{false};
std::atomic<bool> hung_up{false};
std::atomic<bool> hangups_ignored{false};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

/// Ends the program by this signal, so that its parent sees the signal as the cause too.
[[noreturn]] void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal);
  std::_Exit(128 + signal);
}

void wait_for_signals() {
  const sigset_t set = stop_signals();
  while (true) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (signal == SIGHUP && (hangups_caught || hangups_ignored)) {
      hung_up = true;
      continue;
    }
    if (!caught || requested.exchange(true)) end_by(signal);
  }
}

}  // namespace

void isolate_stop_signals() {
  // A shell starts background commands with SIGINT ignored.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  // nohup has SIGHUP ignored, but a blocked signal is delivered to sigwait all the same; wait_for_signals() must ignore
  // it.
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  hangups_ignored = hangup.sa_handler == SIG_IGN;
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread(wait_for_signals).detach();
  isolated = true;
}

const std::atomic<bool>& catch_stop_signals() {
  invariant(isolated, "isolate_stop_signals() was called before");
  caught = true;
  return requested;
}

std::atomic<bool>& catch_hangups() {
  invariant(isolated, "isolate_stop_signals() was called before");
  hangups_caught = true;
  return hung_up;
}

}  // namespace convoy
