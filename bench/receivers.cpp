#include "bench/receivers.hpp"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <sstream>

#include "bench/transfer.hpp"
#include "core/error.hpp"

namespace convoy {
namespace {

[[noreturn]] void run_child(const int* ends) {
  close(ends[1]);
  std::string word;
  for (char c = 0; read(ends[0], &c, 1) == 1 && c != '\n';) word += c;
  std::istringstream words(word);
  std::string endpoint;
  std::string key;
  int raw_port = 0;
  if (!(words >> endpoint >> raw_port)) _exit(1);
  words >> key;
  try {
    receive_transfers(endpoint, "127.0.0.1", raw_port, key);
  } catch (const std::exception& error) {
    fmt::print(stderr, "receiver: {}\n", error.what());
    _exit(1);
  }
  _exit(0);
}

}  // namespace

Receivers::Receivers(int count) {
  for (int i = 0; i < count; ++i) {
    int ends[2];
    if (pipe(ends) != 0) fail("cannot make a pipe to a receiving process");
    const pid_t pid = fork();
    if (pid == 0) run_child(ends);
    close(ends[0]);
    children_.push_back({pid, ends[1]});
  }
}

Receivers::~Receivers() {
  for (const Child& child : children_) {
    close(child.pipe);
    kill(child.pid, SIGTERM);
    waitpid(child.pid, nullptr, 0);
  }
}

void Receivers::start(const std::string& endpoint, int raw_port, const std::string& key) {
  const std::string word = fmt::format("{} {} {}\n", endpoint, raw_port, key);
  for (const Child& child : children_) {
    if (write(child.pipe, word.data(), word.size()) < 0) fail("a receiving process has ended unexpectedly");
  }
}

}  // namespace convoy
