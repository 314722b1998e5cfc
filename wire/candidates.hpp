// The addresses from which calls with a master's key come, and the order in which a slave tries them. A call proves
// nothing: whoever has heard one can send it from any number of false addresses, faster than the master calls.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

namespace convoy::wire {

/// Remembers at most kMostKnown addresses. Of more, it forgets the one that has been silent for longest.
class Candidates {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kMostKnown = 512;

  /// Notes that a call came from this address.
  void hear(const std::string& address, Time now);
  /// Returns the address to try now, and counts it as being tried. Returns nothing if none is due. Addresses at which
  /// the master was found before come first, then those that call steadily like a master, then those that were tried
  /// longest ago.
  std::optional<std::string> next(Time now);
  /// Ends an attempt that failed. The next may begin after a delay that doubles with each failure in a row, to a
  /// minute.
  void failed(const std::string& address, Time now);
  /// Ends an attempt that found the master, which makes up for earlier failures.
  void found(const std::string& address);
  /// Ends the attempts that have no result yet, as if they had not begun.
  void give_up();

  std::size_t size() const { return known_.size(); }

 private:
  struct Candidate {
    Time first;        ///< when its calls began
    Time heard;        ///< its last call
    Time counted;      ///< its last call that counted: half a second or more after the one before
    int rounds = 0;    ///< calls that counted since its calls began
    Time tried;        ///< when the last attempt began
    Time due;          ///< when the next may begin
    int failures = 0;  ///< attempts that failed in a row
    bool trying = false;
    bool found = false;
  };
  static bool comes_before(const Candidate& a, const Candidate& b);
  void forget_one();

  std::map<std::string, Candidate> known_;
};

}  // namespace convoy::wire
