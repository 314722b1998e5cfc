// How a slave finds the master of its key by the calls that it hears.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "wire/beacon.hpp"
#include "wire/candidates.hpp"
#include "wire/keys.hpp"

namespace convoy::wire {

/// Finds the master again and again, and remembers which addresses were false. May be used by one thread only.
class MasterSearch {
 public:
  using Report = std::function<void(const std::string&)>;

  /// `patience` is how long a search waits for a call before it says that none comes.
  explicit MasterSearch(JoinKey key, std::chrono::milliseconds patience = std::chrono::seconds(5));

  /// Waits for calls with the master's public key, tries the addresses that they come from, many at once, and returns
  /// the first at which a machine proves that it has the master's secret key: "tcp://HOST:PORT". Returns nothing once
  /// `stop` is set. Tells `report` once in a search that no master calls, once that only one with another key does, and
  /// once that calls come from addresses where no such master listens. Throws Error if the UDP port cannot be bound.
  std::optional<std::string> find(const std::atomic<bool>& stop, const Report& report = {});

  /// Puts off the address that find() returned last, because no link to it came about.
  void failed();

 private:
  /// What one search has heard and reported.
  struct State;
  void hear(const CallListener& listener, std::chrono::milliseconds tick, State& state);
  void tell(const Report& report, State& state) const;

  JoinKey key_;
  std::chrono::milliseconds patience_;
  Candidates candidates_;
  std::string last_;  ///< the address that find() returned last
};

}  // namespace convoy::wire
