// Finds out why a TCP connection to an address fails. ZeroMQ does not report this: it only tries again and again.
#pragma once

#include <memory>
#include <string>

#include "wire/endpoint.hpp"

namespace convoy::wire {

/// Resolves the name and tries once to connect to each of its first addresses, for at most a few seconds each after the
/// name has resolved. Returns the error as a text for people, or an empty text if it connected.
std::string why_unconnected(const Address& address);

/// Calls why_unconnected() in a thread of its own, because a name server may take long to answer. The thread may
/// outlive the object.
class Trouble {
 public:
  explicit Trouble(Address address);

  /// Starts a call in the background, unless one is running or ended less than 5 s ago.
  void ask();
  /// The result of the last call that ended; empty if there is none, or if it connected.
  std::string answer() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace convoy::wire
