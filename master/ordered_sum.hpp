// Sums tensors that several members send piece by piece, in the members' order whatever the order of arrival.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "core/tensor.hpp"
#include "wire/stream.hpp"

namespace convoy {

class OrderedSum {
 public:
  /// Sums `contributors` tensors of sum's shape into `sum`, which must outlive this; in floats, whatever the type of the
  /// pieces.
  OrderedSum(Tensor& sum, std::size_t contributors, NumberType type = NumberType::fp32);

  /// A contributor's whole tensor, at hand at once; must outlive this.
  void give(std::size_t contributor, const Tensor& whole);
  /// A contributor's next piece. Throws Error unless pieces come in the order and cut of wire::cut_pieces, with as many
  /// values as they cover.
  void add(std::size_t contributor, const wire::Piece& piece, const wire::Payload& payload);
  /// Adds what can be added now; calls `consumed` for each piece of add() that is no longer held.
  void advance(const std::function<void(std::size_t contributor)>& consumed);
  /// All of a contributor's pieces came.
  bool received(std::size_t contributor) const;
  /// Everything has been added.
  bool complete() const;

 private:
  struct Contributor {
    const Tensor* whole = nullptr;
    std::deque<wire::Payload> held;
    std::size_t received = 0;
    std::size_t added = 0;
  };
  bool ready(std::size_t contributor) const;
  void add_next(std::size_t contributor);

  Tensor& sum_;
  NumberType type_;
  AlignedVector<float> decoded_;  ///< a sample of a piece
  std::vector<wire::Piece> cut_;
  std::vector<Contributor> contributors_;
};

}  // namespace convoy
