// Commands whose output meters read, such as vcgencmd.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "energy/machine.hpp"

extern char** environ;  // POSIX

namespace convoy::energy {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::size_t kLargestOutput = 65536;

/// Drivers run compilers as children of other threads, so each thread counts its own.
thread_local double seconds_of_commands = 0;

double seconds_in(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// The settings of a child whose standard output goes to a pipe, and whose other streams go nowhere.
class ChildSettings {
 public:
  explicit ChildSettings(int to) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files_, to, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    // Threads of the programs block the signals that end a program; a child must not.
    sigset_t none{};
    sigemptyset(&none);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~ChildSettings() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  ChildSettings(const ChildSettings&) = delete;
  ChildSettings& operator=(const ChildSettings&) = delete;

  int start(pid_t* child, const std::vector<std::string>& command) const {
    std::vector<std::string> words = command;
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    return posix_spawnp(child, arguments[0], &files_, &attributes_, arguments.data(), environ);
  }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

int milliseconds_until(Steady::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Steady::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

/// Appends what comes from `from` to `text` until its end. Returns false at the deadline, and where it is too long.
bool read_until_end(int from, Steady::time_point deadline, std::string& text) {
  std::array<char, 4096> part{};
  while (true) {
    pollfd waiting{.fd = from, .events = POLLIN, .revents = 0};
    const int ready = poll(&waiting, 1, milliseconds_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t got = ::read(from, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    if (text.size() + static_cast<std::size_t>(got) > kLargestOutput) return false;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
}

/// Waits for the child, which has closed its output or is to be killed. Returns its status.
int reap(pid_t child, Steady::time_point deadline, bool kill_now) {
  int status = 0;
  while (true) {
    if (kill_now || Steady::now() >= deadline) kill(child, SIGKILL);
    rusage used{};
    const pid_t ended = wait4(child, &status, kill_now ? 0 : WNOHANG, &used);
    if (ended == child) seconds_of_commands += seconds_in(used.ru_utime) + seconds_in(used.ru_stime);
    if (ended == child || (ended < 0 && errno != EINTR)) return status;
    if (!kill_now) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

double command_seconds() { return seconds_of_commands; }

std::string output_of(const std::vector<std::string>& command, double seconds) {
  const auto deadline = Steady::now() + std::chrono::milliseconds(std::llround(1000 * seconds));
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("{}: {}", command.front(), std::strerror(errno));
  pid_t child = 0;
  const int code = ChildSettings(ends[1]).start(&child, command);
  ::close(ends[1]);
  std::string text;
  const bool whole = code == 0 && read_until_end(ends[0], deadline, text);
  ::close(ends[0]);
  if (code != 0) fail("the command {} cannot be started: {}", command.front(), std::strerror(code));
  const int status = reap(child, deadline, !whole);
  if (!whole) fail("the command {} gave no whole answer within {} s", command.front(), seconds);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) fail("the command {} is not there", command.front());
  if (status != 0) fail("the command {} failed", command.front());
  return text;
}

}  // namespace convoy::energy
