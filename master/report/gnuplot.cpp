#include "master/report/gnuplot.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>

namespace convoy {

bool run_gnuplot(const std::string& folder, const std::string& script) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  for (const int stream : {0, 1, 2}) posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDWR, 0);
  // gnuplot must stop on Ctrl-C, although this program blocks the signals (core/stop_signal.hpp).
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  // This program ignores SIGPIPE (core/output.hpp), and what a program ignores its children ignore too.
  sigset_t pipes;
  sigemptyset(&pipes);
  sigaddset(&pipes, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &pipes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::array<char, 8> program{"gnuplot"};
  std::string name = script;
  std::array<char*, 3> arguments{program.data(), name.data(), nullptr};
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, program.data(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  int status = 1;
  return error == 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

}  // namespace convoy
