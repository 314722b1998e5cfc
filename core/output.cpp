#include "core/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <optional>

namespace convoy {
namespace {

std::mutex mutex;
std::optional<std::string> goes_on;  ///< what to say when standard output ends; nothing where it is needed

void lose_output(int error) {
  const std::lock_guard lock(mutex);
  if (!goes_on) return;
  const std::string text =
      fmt::format("standard output cannot be written any more: {}; {}\n", std::strerror(error), *goes_on);
  std::fwrite(text.data(), 1, text.size(), stderr);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  dup2(nowhere, STDOUT_FILENO);
  close(nowhere);
  std::clearerr(stdout);
}

}  // namespace

void prepare_output() {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDWR);  // which takes the lowest free number
  }
}

void go_on_without_output(const std::string& instead) {
  const std::lock_guard lock(mutex);
  goes_on = instead;
}

void put(std::FILE* to, std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), to) == text.size() && std::fflush(to) == 0;
  if (!written && to == stdout) lose_output(errno);
}

}  // namespace convoy
