// Errors. Two kinds, and no others:
//   Error      something outside the program is wrong (a file, an option, a peer, a device). Its text names the
//              place, what was expected and the mend; it is shown to the user as it is.
//   BrokenInvariant  the program itself is wrong; the text names the source line.
#pragma once

#include <fmt/format.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>

namespace convoy {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A peer that died, hung, or broke the protocol. `peer()` is its name as the user knows it.
class PeerLost : public Error {
 public:
  PeerLost(std::string peer, const std::string& what) : Error(what), peer_(std::move(peer)) {}
  const std::string& peer() const { return peer_; }

 private:
  std::string peer_;
};

/// A device that failed or hangs: what it holds is lost, and it cannot be used again by this process.
class DeviceLost : public Error {
 public:
  using Error::Error;
};

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
