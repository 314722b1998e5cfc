#include "core/thread_team.hpp"

#include <utility>

namespace convoy {

int hardware_threads() {
  const unsigned count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : static_cast<int>(count);
}

ThreadTeam::ThreadTeam(int size) {
  try {
    for (int i = 1; i < size; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (...) {
    end();  // the threads that were started before the system refused one
    throw;
  }
}

ThreadTeam::~ThreadTeam() { end(); }

void ThreadTeam::end() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadTeam::try_to(const std::function<void(int)>& job, int index) {
  try {
    job(index);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!thrown_) thrown_ = std::current_exception();
  }
}

void ThreadTeam::work(int index) {
  unsigned long seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    start_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    const auto* job = job_;
    lock.unlock();
    try_to(*job, index);
    lock.lock();
    if (--running_ == 0) finish_.notify_one();
  }
}

void ThreadTeam::run(const std::function<void(int)>& job) {
  if (!workers_.empty()) {
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      running_ = static_cast<int>(workers_.size());
      ++round_;
    }
    start_.notify_all();
  }
  try_to(job, 0);
  std::unique_lock lock(mutex_);
  finish_.wait(lock, [&] { return running_ == 0; });
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void ThreadTeam::split(int count, const std::function<void(int, int, int)>& job) {
  const int threads = size();
  run([&](int thread) {
    const int first = static_cast<int>(static_cast<long>(count) * thread / threads);
    const int last = static_cast<int>(static_cast<long>(count) * (thread + 1) / threads);
    if (first < last) job(thread, first, last);
  });
}

}  // namespace convoy
