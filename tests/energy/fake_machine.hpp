// A machine made up for tests: its files, commands and plugs come from a text, and tests change them as they run.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "core/clock.hpp"
#include "energy/machine.hpp"
#include "tests/support/process.hpp"

namespace convoy::energy {

/// Time that passes only when somebody sleeps. It is the time of its thread as long as it lives.
class FakeTime : public TimeSource {
 public:
  FakeTime() { Clock::use(this); }
  ~FakeTime() override { Clock::use(nullptr); }
  TimePoint now() override { return now_; }
  void sleep_until(TimePoint time) override;
  void pass(double seconds);
  /// The seconds since the construction.
  double seconds() const { return std::chrono::duration<double>(now_ - kBegin).count(); }

 private:
  static constexpr TimePoint kBegin{std::chrono::hours(1)};
  TimePoint now_ = kBegin;
};

class FakeMachine : public Machine {
 public:
  FakeMachine() : FakeMachine(std::make_unique<TemporaryFolder>()) {}
  /// Makes the machine of tests/energy/trees/NAME.tree. Lines are "/PATH = TEXT", "/PATH -> LINK", "$ COMMAND = OUTPUT"
  /// and "@ HOST/TARGET = BODY"; \n in a text is a new line.
  explicit FakeMachine(const std::string& tree);

  void write(const std::string& path, const std::string& text) const;
  /// Replaces the text of a file that is there, of at most 24 characters, as often as a sensor does: without a new
  /// file.
  void rewrite(const std::string& path, const std::string& text) const;
  void remove(const std::string& path) const;
  const std::string& folder() const { return folder_->path(); }

  std::string read(const std::string& path) const override;
  std::string run(const std::vector<std::string>& command) const override;
  std::string get(const std::string& host, const std::string& target) const override;
  std::string nvml_library() const override { return library; }
  double unix_time() const override { return 1.8e9 + std::chrono::duration<double>(Clock::now() - begin_).count(); }

  bool in_memory = false;                       ///< whether texts stay in memory, for tests that write thousands
  std::map<std::string, int> failures;          ///< paths whose reading fails, with the errno
  std::map<std::string, std::string> commands;  ///< outputs of commands
  std::map<std::string, std::string> pages;     ///< bodies of plugs' answers
  std::string library = "no-such-library.so";   ///< the library of NVIDIA's drivers

 private:
  explicit FakeMachine(std::unique_ptr<TemporaryFolder> folder) : Machine(folder->path()), folder_(std::move(folder)) {}

  std::unique_ptr<TemporaryFolder> folder_;
  mutable std::map<std::string, std::string> texts_;  ///< of files, in memory
  Clock::time_point begin_ = Clock::now();
};

}  // namespace convoy::energy
