// Why no TCP connection to an address comes about. ZeroMQ tries again and again and tells nobody why it fails.
#pragma once

#include <memory>
#include <string>

#include "wire/endpoint.hpp"

namespace convoy::wire {

/// Resolves the name and connects once, with a deadline of some seconds; what went wrong, or nothing if it connected.
std::string why_unconnected(const Address& address);

/// Asks why_unconnected() in a thread of its own, since a name server may not answer for long. The thread outlives this
/// object where it must.
class Trouble {
 public:
  explicit Trouble(Address address);

  /// Begins to ask, unless it is still asking or has just asked.
  void ask();
  /// The last answer; empty where there is none or the connection came about.
  std::string answer() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace convoy::wire
