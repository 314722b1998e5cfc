// Values as Pieces: cutting them, and putting them together in the order in which they come.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/shard_state.hpp"
#include "wire/link.hpp"

namespace convoy::wire {

/// Calls send(a Piece with its payload) for all values, in order. `begin` says what they are; values count on from
/// begin.first. A Piece never holds values of two of the spans.
void send_values(const Piece& begin, const std::vector<std::span<const float>>& values,
                 const std::function<void(const Envelope&)>& send);

/// Puts them together.
class ValueReader {
 public:
  /// What `values` show must outlive the reader.
  explicit ValueReader(std::vector<std::span<float>> values);
  /// Throws Error when other values are due, or the payload holds none or too many.
  void add(const Piece& piece, const Payload& payload);
  bool complete() const { return values_.empty(); }

 private:
  std::vector<std::span<float>> values_;  ///< what is still to come, last first
  std::uint64_t next_ = 0;
};

/// A shard's state in the order in which it travels: its parameters, each with its moments behind it.
std::vector<std::span<float>> values_of(ShardState& state);
std::vector<std::span<const float>> values_of(const ShardState& state);

}  // namespace convoy::wire
