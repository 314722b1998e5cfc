// Deadlines and addresses for tests of links.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "wire/link.hpp"

namespace convoy::wire {

inline Deadline in(std::chrono::milliseconds time) { return Clock::now() + time; }

/// Where other slaves reach a slave on this machine.
inline std::string at(const ClientLink& peer) { return fmt::format("127.0.0.1:{}", peer.peer_port()); }

}  // namespace convoy::wire
