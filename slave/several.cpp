#include "slave/several.hpp"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "core/error.hpp"
#include "core/exit_code.hpp"
#include "core/output.hpp"

namespace convoy {
namespace {

sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

class Children {
 public:
  void start(const std::string& name, const std::function<int(const std::string&)>& work) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0)
      fail("cannot start a process for device {}: {}; end other programs, or use fewer devices", name,
           std::strerror(errno));
    if (child > 0) {
      names_[child] = name;
      return;
    }
    // In a process group of its own, the child gets Ctrl-C from the parent only, and so only once.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) std::_Exit(kFailure);
    std::exit(work(name));
  }

  void pass_on(int signal) const {
    for (const auto& [process, name] : names_) kill(process, signal);
  }

  /// Reports the processes that have ended.
  void reap() {
    int status = 0;
    for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
      const std::string name = names_[ended];
      names_.erase(ended);
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (code == kSuccess) continue;
      put(stderr, fmt::format("convoy-slave: the slave of device {} ended with exit code {}{}\n", name, code,
                              names_.empty() ? "" : "; the other slaves go on"));
      if (code_ == kSuccess) code_ = code;
    }
  }

  bool empty() const { return names_.empty(); }
  int code() const { return code_; }

 private:
  std::map<pid_t, std::string> names_;
  int code_ = kSuccess;
};

}  // namespace

int run_each_apart(const std::vector<std::string>& names, const std::function<int(const std::string& name)>& work) {
  const sigset_t awaited = awaited_signals();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &awaited, &before);
  std::fflush(nullptr);
  Children children;
  for (const std::string& name : names) {
    children.start(name, [&](const std::string& device) {
      sigprocmask(SIG_SETMASK, &before, nullptr);
      return work(device);
    });
  }
  while (!children.empty()) {
    int signal = 0;
    if (sigwait(&awaited, &signal) != 0) continue;
    if (signal != SIGCHLD) children.pass_on(signal);
    children.reap();
  }
  return children.code();
}

}  // namespace convoy
