#include "bench/real_run.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.hpp"

namespace convoy {
namespace {

/// A process of a program in this program's folder. The destructor ends it.
class Program {
 public:
  /// `output` is the file descriptor for the program's output; a negative one discards it.
  Program(const std::string& name, const std::vector<std::string>& arguments, int output) : name_(name) {
    const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    std::vector<std::string> words{(folder / name).string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int stream : {1, 2}) {
      if (output >= 0) {
        posix_spawn_file_actions_adddup2(&actions, output, stream);
      } else {
        posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_WRONLY, 0);
      }
    }
    const int error = posix_spawn(&pid_, words.front().c_str(), &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
      fail("{}: cannot be started: {}; build it beside convoy-bench", words.front(), std::strerror(error));
  }
  ~Program() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Waits for the program to end, and returns its exit code. Sets `mib` to its peak memory in MiB.
  int wait(double& mib) {
    int status = 0;
    rusage usage{};
    while (wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    mib = static_cast<double>(usage.ru_maxrss) / 1024.0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  std::string name_;
  pid_t pid_ = 0;
};

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = read(file, buffer.data(), buffer.size())) != 0;) {
    if (count < 0 && errno != EINTR) break;
    if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

int free_port() {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  const bool bound = bind(file, any, size) == 0 && getsockname(file, any, &size) == 0;
  close(file);
  if (!bound) fail("cannot find a free port on 127.0.0.1: {}", std::strerror(errno));
  return ntohs(address.sin_port);
}

std::vector<double> step_seconds(const std::string& output) {
  std::vector<double> seconds;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.value("event", "") == "step") seconds.push_back(event.at("seconds").get<double>());
  }
  return seconds;
}

}  // namespace

RealSteps run_really(const RealRun& run) {
  std::vector<std::string> words{"train"};
  words.insert(words.end(), run.master.begin(), run.master.end());
  words.insert(words.end(), {"--format", "json"});
  const std::string endpoint = fmt::format("tcp://127.0.0.1:{}", free_port());
  std::vector<std::unique_ptr<Program>> slaves;
  if (run.slaves > 0)
    words.insert(words.end(), {"--slaves", std::to_string(run.slaves), "--listen", endpoint, "--insecure",
                               "--snapshot-seconds", "1e6"});
  for (int i = 0; i < run.slaves; ++i) {
    std::vector<std::string> options{
        endpoint, "--insecure", "--once", "--cache", "none", "--name", fmt::format("s{:02}", i + 1)};
    options.insert(options.end(), run.slave.begin(), run.slave.end());
    slaves.push_back(std::make_unique<Program>("convoy-slave", options, -1));
  }
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("cannot make a pipe: {}", std::strerror(errno));
  Program master("convoy-master", words, ends[1]);
  close(ends[1]);
  const std::string output = read_all(ends[0]);
  close(ends[0]);
  RealSteps steps{.seconds = step_seconds(output)};
  if (master.wait(steps.master_mib) != 0) {
    fail("convoy-master failed: {}", output.substr(output.size() > 600 ? output.size() - 600 : 0));
  }
  for (const auto& slave : slaves) {
    double mib = 0.0;
    slave->wait(mib);
    steps.slave_mib = std::max(steps.slave_mib, mib);
  }
  return steps;
}

}  // namespace convoy
