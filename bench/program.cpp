#include "bench/program.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"

namespace convoy {

Program::Program(const std::string& name, const std::vector<std::string>& arguments, const Streams& streams) {
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::vector<std::string> words{(folder / name).string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  int number = 0;
  for (const int stream : {streams.input, streams.output, streams.errors}) {
    if (stream >= 0) {
      posix_spawn_file_actions_adddup2(&actions, stream, number);
    } else {
      posix_spawn_file_actions_addopen(&actions, number, "/dev/null", O_RDWR, 0);
    }
    ++number;
  }
  const int error = posix_spawn(&pid_, words.front().c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    pid_ = 0;
    fail("{}: cannot be started: {}; build it beside convoy-bench", words.front(), std::strerror(error));
  }
}

Program::~Program() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

int Program::wait(double& mib) {
  int status = 0;
  rusage usage{};
  while (wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  mib = static_cast<double>(usage.ru_maxrss) / 1024.0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace convoy
