// The course of a simulated run as lines. Two runs of a seed have the same lines, and so the same hash.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>

#include "tests/simulation/scheduler.hpp"

namespace convoy::simulation {

class Log {
 public:
  /// `print`: whether lines also go to stdout.
  Log(const Scheduler& scheduler, bool print) : scheduler_(scheduler), print_(print) {}

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.clear();
    const Actor* actor = scheduler_.running();
    const Time time = actor != nullptr ? actor->time() : scheduler_.now();
    fmt::format_to(std::back_inserter(text_), "{:>14.6f} ", std::chrono::duration<double>(time).count());
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_.push_back('\n');
    // FNV-1a
    for (const char c : text_) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    if (print_) std::fwrite(text_.data(), 1, text_.size(), stdout);
  }

  std::uint64_t hash() const { return hash_; }

 private:
  const Scheduler& scheduler_;
  bool print_;
  std::string text_;
  std::uint64_t hash_ = 14695981039346656037ULL;
};

}  // namespace convoy::simulation
