// Cuts values into Pieces, and assembles values from Pieces that arrive in order.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/number_type.hpp"
#include "core/shard_state.hpp"
#include "wire/link.hpp"

namespace convoy::wire {

/// Values, and the type in which they travel; not int8.
template <class T>
struct Typed {
  std::span<T> values;
  NumberType type = NumberType::fp32;
};

/// Calls `send` with Pieces that hold all values, in order. The Pieces have the step and task of `begin`, and their
/// `first` counts on from begin.first. A Piece never holds values of two spans.
void send_values(const Piece& begin, const std::vector<Typed<const float>>& values,
                 const std::function<void(const Envelope&)>& send);
/// The same in fp32.
void send_values(const Piece& begin, const std::vector<std::span<const float>>& values,
                 const std::function<void(const Envelope&)>& send);

/// Assembles values from Pieces.
class ValueReader {
 public:
  /// The memory of `values` must outlive the reader.
  explicit ValueReader(std::vector<Typed<float>> values);
  /// The same in fp32.
  explicit ValueReader(const std::vector<std::span<float>>& values);
  /// Copies the next values. Throws Error if the Piece does not begin at the next value, or its payload is empty or too
  /// long.
  void add(const Piece& piece, const Payload& payload);
  bool complete() const { return values_.empty(); }

 private:
  std::vector<Typed<float>> values_;  ///< values that have not arrived, the next span at the back
  std::uint64_t next_ = 0;            ///< index of the next value
};

/// The values of a shard's state in the order in which they travel: each parameter followed by its moments.
std::vector<std::span<float>> values_of(ShardState& state);
std::vector<std::span<const float>> values_of(const ShardState& state);

/// The same values: those of trained parameters travel in `type`, as do their moments; running averages, which would
/// not change by less than what 16 bits tell apart, in fp32. `stage` is the stage of the shard.
std::vector<Typed<float>> values_of(ShardState& state, const Stage& stage, NumberType type);
std::vector<Typed<const float>> values_of(const ShardState& state, const Stage& stage, NumberType type);

}  // namespace convoy::wire
