// Messages to bytes and back. The format is FlatBuffers (wire/protocol.fbs), verified before it is read; every count,
// range and enumeration is checked, so whatever decode returns is safe to use.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "wire/message.hpp"

namespace convoy::wire {

/// The header frame of a message. A Piece's payload is a second frame.
std::vector<std::byte> encode(const Message& message);

/// Throws Error saying what is wrong: not verified, unknown message, a value out of range, an invalid stage.
Message decode(std::span<const std::byte> bytes);

}  // namespace convoy::wire
