// Tensors as frames: cutting them into pieces and putting pieces together.
//
// A piece holds whole samples where several fit into a frame, else some channels of one sample (at least one). Equal
// shapes are cut equally by everybody, so the n-th piece of a tensor is the same region whoever sends it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/number_type.hpp"
#include "core/stage.hpp"
#include "core/tensor.hpp"
#include "wire/link.hpp"

namespace convoy::wire {

/// Frames of a result that a slave may send before the master grants more.
inline constexpr int kInitialCredit = 4;

/// The extents of the pieces of a tensor of `shape`, in the order in which they travel. Throws Error when one channel
/// of one sample is larger than a message may be.
std::vector<Piece> cut_pieces(const Shape& shape);

/// All of a tensor, as numbers of that type; the conversion into the payloads is the only copy.
std::vector<Envelope> make_pieces(const Tensor& tensor, NumberType type = NumberType::fp32);
/// Channels `channels` of every sample, as a tensor of channels.count channels.
std::vector<Envelope> make_pieces(const Tensor& tensor, FilterRange channels, NumberType type = NumberType::fp32);
/// The same channels as a tensor on the host.
Tensor channel_slice(const Tensor& tensor, FilterRange channels);
/// A shard's state: weights, bias and velocities as parts 0 to 3.
std::vector<Envelope> make_state_pieces(const ShardState& state);

/// Puts pieces, from one sender or several, together to a tensor of `shape`.
class Assembler {
 public:
  /// `values` must outlive the assembler; empty: pieces are only checked and counted. `type`: of payloads.
  Assembler(const Shape& shape, std::span<float> values, NumberType type = NumberType::fp32);
  /// Throws Error when the piece lies outside the tensor, came before, or has another number of values.
  void add(const Piece& piece, const Payload& payload) { add(piece, payload.bytes(), type_); }
  /// The same of values at hand.
  void add(const Piece& piece, std::span<const float> values) { add(piece, std::as_bytes(values), NumberType::fp32); }
  bool complete() const { return missing_ == 0; }
  /// These channels of every sample are there.
  bool complete(FilterRange channels) const;

 private:
  void add(const Piece& piece, std::span<const std::byte> bytes, NumberType type);

  Shape shape_;
  std::span<float> values_;
  NumberType type_;
  std::vector<bool> have_;  ///< by sample and channel
  std::size_t missing_;
};

/// Puts the pieces of make_state_pieces together.
class StateAssembler {
 public:
  /// `state` gives the shapes, receives the values, and must outlive the assembler.
  explicit StateAssembler(ShardState& state);
  void add(const Piece& piece, const Payload& payload);
  bool complete() const;

 private:
  std::vector<Assembler> parts_;
};

}  // namespace convoy::wire
