// Real processes, for tests: started, watched, signalled, and never left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace convoy {

class Process {
 public:
  /// Starts a program; its output (both streams) goes to a temporary file.
  explicit Process(const std::vector<std::string>& command);
  ~Process();
  Process(Process&& other) noexcept;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const;
  /// Exit code (128 + signal when killed by one), or -1 if it still runs at the deadline.
  int wait(std::chrono::seconds deadline);
  bool running();
  std::string output() const;
  /// Waits until the output contains `text`; false at the deadline or when the process ends without it.
  bool wait_for(const std::string& text, std::chrono::seconds deadline);

 private:
  pid_t pid_ = -1;
  int code_ = -1;
  bool ended_ = false;
  std::string file_;
};

/// "tcp://127.0.0.1:PORT" with a port that nobody listens at now.
std::string free_endpoint();

/// A folder of its own under the system's temporary folder, removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace convoy
