#include "bench/real_run.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/program.hpp"
#include "core/error.hpp"

namespace convoy {
namespace {

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
    slaves.push_back(std::make_unique<Program>("convoy-slave", options));
  }
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("cannot make a pipe: {}", std::strerror(errno));
  Program master("convoy-master", words, {.output = ends[1], .errors = ends[1]});
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
