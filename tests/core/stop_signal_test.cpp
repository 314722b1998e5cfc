// Tests that Ctrl-C and SIGTERM set a flag, and that their handler never runs on a computing thread.

#include "core/stop_signal.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace convoy {
namespace {

using namespace std::chrono_literals;

bool soon(const std::atomic<bool>& flag) {
  for (int i = 0; i < 1000 && !flag; ++i) std::this_thread::sleep_for(10ms);
  return flag;
}

bool blocked(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

bool handled(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler != SIG_DFL;
}

/// Sends a signal to this process and waits for it to end the process. Exits with 0 if it does not.
void send_and_wait(int signal) {
  kill(getpid(), signal);
  std::this_thread::sleep_for(10s);
  std::_Exit(0);
}

class StopSignalDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(StopSignalDeathTest, EndsTheProgramBeforeAnybodyCatchesIt) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EXIT(
        {
          isolate_stop_signals();
          send_and_wait(signal);
        },
        testing::KilledBySignal(signal), "");
  }
}

TEST_F(StopSignalDeathTest, SetsTheFlagFirstAndEndsTheProgramSecond) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EXIT(
        {
          isolate_stop_signals();
          const std::atomic<bool>& stop = catch_stop_signals();
          if (stop) std::_Exit(1);
          kill(getpid(), signal);
          if (!soon(stop)) std::_Exit(2);
          send_and_wait(signal);
        },
        testing::KilledBySignal(signal), "");
  }
}

TEST_F(StopSignalDeathTest, RunsNoHandlerOnAnyThread) {
  EXPECT_EXIT(
      {
        std::signal(SIGINT, SIG_IGN);  // as shells do for background jobs
        isolate_stop_signals();
        catch_stop_signals();
        bool ok = true;
        const auto check = [&] {
          for (const int signal : {SIGINT, SIGTERM}) ok = ok && blocked(signal) && !handled(signal);
        };
        check();
        std::thread(check).join();
        std::_Exit(ok ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace convoy
