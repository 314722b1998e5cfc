// A fixed number of threads that together run one job at a time.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace convoy {

/// Returns the number of hardware threads of this machine. The option --threads 0 stands for this number.
int hardware_threads();

/// A fixed set of threads. Only one thread at a time may call run() or split().
class ThreadTeam {
 public:
  /// `size` is the number of threads including the caller, at least 1. Throws std::system_error if the system refuses a
  /// thread.
  explicit ThreadTeam(int size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }
  /// Runs job(0) .. job(size - 1), each on its own thread, and returns when all of them have returned. Throws the first
  /// exception that a job throws.
  void run(const std::function<void(int)>& job);
  /// Splits 0 .. count - 1 into one contiguous range per thread. The ranges depend on count and size only.
  void split(int count, const std::function<void(int thread, int first, int last)>& job);

 private:
  void work(int index);
  void try_to(const std::function<void(int)>& job, int index);
  void end();

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable finish_;
  const std::function<void(int)>* job_ = nullptr;
  unsigned long round_ = 0;
  int running_ = 0;
  bool stop_ = false;
  std::exception_ptr thrown_;
  std::vector<std::thread> workers_;
};

}  // namespace convoy
