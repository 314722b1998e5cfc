// Encodes messages as bytes and decodes them. The format is FlatBuffers (wire/protocol.fbs). decode verifies the buffer
// and checks every count, range and enumeration, so that a decoded message is safe to use.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "wire/message.hpp"

namespace convoy::wire {

/// Returns the header frame of a message. The payload of a Piece travels in a second frame.
std::vector<std::byte> encode(const Message& message);

/// Throws Error with the reason: a damaged buffer, an unknown kind of message, a value out of range, or an invalid
/// stage.
Message decode(std::span<const std::byte> bytes);

}  // namespace convoy::wire
