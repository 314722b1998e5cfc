// Starts, watches and signals real processes, and never leaves one behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace convoy {

class Process {
 public:
  /// Starts a program. Both of its output streams go to a temporary file.
  explicit Process(const std::vector<std::string>& command);
  ~Process();
  Process(Process&& other) noexcept;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const;
  /// Returns the exit code, 128 + the signal that killed the process, or -1 if it still runs at the deadline.
  int wait(std::chrono::seconds deadline);
  bool running();
  std::string output() const;
  /// Waits until the output contains `text`. Returns false at the deadline, or when the process ends without the text.
  bool wait_for(const std::string& text, std::chrono::seconds deadline);

 private:
  pid_t pid_ = -1;
  int code_ = -1;
  bool ended_ = false;
  std::string file_;
};

/// Returns "tcp://127.0.0.1:PORT" with a free port.
std::string free_endpoint();

/// A new folder in the system's temporary folder. The destructor removes it with its contents.
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
