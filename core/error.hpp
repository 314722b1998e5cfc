// Errors. There are two kinds, and no others:
//   Error            Something outside the program is wrong (a file, an option, a peer, a device). The text names the
//                    place, what was expected and how to fix it; the user sees it unchanged.
//   BrokenInvariant  The program itself is wrong. The text names the source line.
#pragma once

#include <fmt/format.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>

namespace convoy {

/// Something outside the program is wrong. The text names the place, what was expected and how to fix it.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A plan cannot continue with a peer. `peer()` is its name as the user knows it.
class PeerLost : public Error {
 public:
  enum class Reason {
    gone,         ///< it died, hung, or broke the protocol
    cannot_hold,  ///< it cannot take its part of a plan
    unreachable,  ///< peers cannot reach each other, though the master reaches them all; peer() is empty
    wrong         ///< it computed something wrong, and must not take part again
  };

  PeerLost(std::string peer, const std::string& what, Reason reason = Reason::gone)
      : Error(what), peer_(std::move(peer)), reason_(reason) {}
  const std::string& peer() const { return peer_; }
  Reason reason() const { return reason_; }

 private:
  std::string peer_;
  Reason reason_;
};

/// A device failed or hangs. Its contents are lost, and this process cannot use it again.
class DeviceLost : public Error {
 public:
  using Error::Error;
};

/// The program itself is wrong.
class BrokenInvariant : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws Error with a formatted text.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws BrokenInvariant naming the caller's line unless `holds`.
inline void invariant(bool holds, const char* what, std::source_location place = std::source_location::current()) {
  if (!holds) {
    throw BrokenInvariant(fmt::format("{}:{}: broken invariant: {}", place.file_name(), place.line(), what));
  }
}

}  // namespace convoy
