#include "master/ordered_sum.hpp"

#include <algorithm>

namespace convoy {
namespace {

/// Elements from the start of a sample of `shape` to the piece's first channel, and the piece's elements a sample.
struct Slab {
  std::size_t offset;
  std::size_t length;
};

Slab slab_of(const wire::Piece& piece, const Shape& shape) {
  const std::size_t map = static_cast<std::size_t>(shape.h) * static_cast<std::size_t>(shape.w);
  return {piece.channel * map, piece.channels * map};
}

void accumulate(const float* from, float* to, std::size_t count, bool first) {
  if (first) {
    std::copy_n(from, count, to);
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
  }
}

}  // namespace

OrderedSum::OrderedSum(Tensor& sum, std::size_t contributors, NumberType type)
    : sum_(sum), type_(type), cut_(wire::cut_pieces(sum.shape())), contributors_(contributors) {}

void OrderedSum::give(std::size_t contributor, const Tensor& whole) { contributors_[contributor].whole = &whole; }

void OrderedSum::add(std::size_t contributor, const wire::Piece& piece, const wire::Payload& payload) {
  Contributor& from = contributors_[contributor];
  if (from.received == cut_.size()) fail("it sent more of a gradient than there is");
  const wire::Piece& expected = cut_[from.received];
  if (piece != expected) {
    fail(
        "its gradient's piece {} covers other samples or channels than expected (sample {} channel {}, expected {} and "
        "{})",
        from.received, piece.sample, piece.channel, expected.sample, expected.channel);
  }
  const std::size_t values = piece.samples * slab_of(piece, sum_.shape()).length;
  if (payload.size() != values * bytes_of(type_)) {
    fail("its gradient's piece {} has {} bytes, expected {}", from.received, payload.size(), values * bytes_of(type_));
  }
  from.held.push_back(payload);
  ++from.received;
}

bool OrderedSum::received(std::size_t contributor) const { return contributors_[contributor].received == cut_.size(); }

bool OrderedSum::ready(std::size_t contributor) const {
  const Contributor& from = contributors_[contributor];
  if (from.added == cut_.size() || (from.whole == nullptr && from.held.empty())) return false;
  return contributor == 0 || contributors_[contributor - 1].added > from.added;
}

void OrderedSum::add_next(std::size_t contributor) {
  Contributor& from = contributors_[contributor];
  const wire::Piece& piece = cut_[from.added];
  const Slab slab = slab_of(piece, sum_.shape());
  const std::byte* received = from.whole == nullptr ? std::as_const(from.held.front()).bytes().data() : nullptr;
  decoded_.resize(slab.length);
  for (std::uint32_t i = 0; i < piece.samples; ++i) {
    const int n = static_cast<int>(piece.sample + i);
    const float* values = decoded_.data();
    if (received != nullptr) {
      decode(type_, received + i * slab.length * bytes_of(type_), decoded_);
    } else {
      values = from.whole->sample(n).data() + slab.offset;
    }
    accumulate(values, sum_.sample(n).data() + slab.offset, slab.length, contributor == 0);
  }
  ++from.added;
}

void OrderedSum::advance(const std::function<void(std::size_t)>& consumed) {
  for (std::size_t i = 0; i < contributors_.size(); ++i) {
    while (ready(i)) {
      add_next(i);
      if (contributors_[i].whole != nullptr) continue;
      contributors_[i].held.pop_front();
      consumed(i);
    }
  }
}

bool OrderedSum::complete() const {
  return std::all_of(contributors_.begin(), contributors_.end(),
                     [&](const Contributor& from) { return from.added == cut_.size(); });
}

}  // namespace convoy
