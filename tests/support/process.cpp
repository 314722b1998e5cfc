#include "tests/support/process.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "core/error.hpp"

namespace convoy {

using namespace std::chrono_literals;

Process::Process(const std::vector<std::string>& command) {
  std::string name = std::filesystem::temp_directory_path().string() + "/convoy-process-XXXXXX";
  const int file = mkstemp(name.data());
  invariant(file >= 0, "a temporary file for a process's output");
  file_ = name;
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    // The child has a process group of its own, because the kernel sends SIGHUP to a whole group that loses its shell
    // while one of its processes is stopped. The child is ended with its parent, because Ctrl-C at the tests does not
    // reach its group.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(file);
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), code_(other.code_), ended_(other.ended_), file_(std::move(other.file_)) {
  other.file_.clear();
}

Process::~Process() {
  if (pid_ > 0 && !ended_) {
    kill(pid_, SIGCONT);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (!file_.empty()) std::filesystem::remove(file_);
}

void Process::signal(int number) const { kill(pid_, number); }

bool Process::running() {
  if (ended_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  ended_ = true;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

int Process::wait(std::chrono::seconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (running()) {
    if (std::chrono::steady_clock::now() > end) return -1;
    std::this_thread::sleep_for(10ms);
  }
  return code_;
}

std::string Process::output() const {
  std::ifstream stream(file_);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

bool Process::wait_for(const std::string& text, std::chrono::seconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (std::chrono::steady_clock::now() < end) {
    const bool alive = running();
    if (output().find(text) != std::string::npos) return true;
    if (!alive) return false;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = std::filesystem::temp_directory_path().string() + "/convoy-test-XXXXXX";
  invariant(mkdtemp(name.data()) != nullptr, "a temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string free_endpoint() {
  // The port is below the range that the kernel gives to outgoing connections. A port in this range could be taken
  // before the master listens, even by a slave that tries to connect to it and so connects to itself.
  constexpr int kFirst = 10000;
  constexpr int kCount = 20000;
  std::random_device random;
  while (true) {
    const int port = kFirst + static_cast<int>(random() % kCount);
    const int handle = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const bool free = bind(handle, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(handle);
    if (free) return fmt::format("tcp://127.0.0.1:{}", port);
  }
}

}  // namespace convoy
