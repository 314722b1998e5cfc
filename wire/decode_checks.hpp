// Checks of values that a peer has sent, and the decoding of those parts of messages that have a file of their own.
// Only the sources of decode() include this header.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <string>
#include <vector>

#include "wire/message.hpp"
#include "wire/protocol_generated.h"

namespace convoy::wire {

inline constexpr std::uint32_t kLargestBatch = 65536;
inline constexpr std::uint32_t kMostStages = 4096;
inline constexpr std::uint32_t kMostMembers = 1024;
inline constexpr std::uint32_t kMostFilters = 1U << 24;

/// Throws Error naming the field unless the value is in this range.
template <class T>
T within(T value, T low, T high, const char* field) {
  if (!(value >= low && value <= high)) fail("{} {} is outside {} to {}", field, value, low, high);
  return value;
}

/// Throws Error unless the elements of a vector, which have the alignment of T, are where they may be read.
/// FlatBuffers' verifier looks at where a vector begins, not at where its elements do.
template <class T, class Vector>
void expect_aligned(const Vector& list) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(list.Data()) % alignof(T) == 0;
  if (list.size() > 0 && !aligned) fail("the message is damaged");
}

/// Returns a text of at most 4096 bytes; an absent one is empty.
std::string text(const flatbuffers::String* value, const char* field);
/// Returns at most `most` texts; an absent list is empty.
std::vector<std::string> texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* list,
                               std::uint32_t most, const char* field);

/// Throws Error unless the token has at most 64 bytes.
std::string token_of(const flatbuffers::String* from);
std::uint32_t batch_of(std::uint32_t batch);
/// Throws Error unless the stage is valid by itself.
Stage stage_of(const fb::Stage* table);
/// Throws Error unless the plan is valid for the trunk.
Assign assign_of(const fb::Assign& table);

}  // namespace convoy::wire
