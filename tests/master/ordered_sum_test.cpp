// Sums over members must not depend on who is first.

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/random.hpp"
#include "master/ordered_sum.hpp"

namespace convoy {
namespace {

constexpr Shape kShape{40, 24, 33, 31};  // several pieces

Tensor drawn(std::uint64_t stream) {
  Tensor tensor(kShape);
  Random random(1, stream);
  for (float& value : tensor.span()) value = random.uniform(-1.0F, 1.0F);
  return tensor;
}

TEST(OrderedSum, IsTheSameToTheBitInEveryOrderOfArrival) {
  const std::vector<Tensor> tensors{drawn(0), drawn(1), drawn(2)};
  Tensor expected(kShape);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected.data()[i] = (tensors[0].data()[i] + tensors[1].data()[i]) + tensors[2].data()[i];
  }
  for (std::uint64_t round = 0; round < 6; ++round) {
    Tensor sum(kShape);
    OrderedSum ordered(sum, 3);
    std::vector<std::vector<wire::Envelope>> pieces;
    for (const Tensor& tensor : tensors) pieces.push_back(wire::make_pieces(tensor));
    ASSERT_GT(pieces[0].size(), 3U);
    if (round % 2 == 1) ordered.give(1, tensors[1]);  // a member's whole tensor at hand
    std::vector<std::size_t> arrivals;
    for (std::size_t member = 0; member < 3; ++member) {
      if (round % 2 == 1 && member == 1) continue;
      arrivals.insert(arrivals.end(), pieces[member].size(), member);
    }
    Random random(round, 9);
    random.shuffle(arrivals);
    std::vector<std::size_t> next(3, 0);
    std::size_t consumed = 0;
    for (const std::size_t member : arrivals) {
      EXPECT_FALSE(ordered.complete());
      const wire::Envelope& piece = pieces[member][next[member]++];
      ordered.add(member, std::get<wire::Piece>(piece.message), piece.payload);
      ordered.advance([&](std::size_t) { ++consumed; });
    }
    EXPECT_TRUE(ordered.complete());
    EXPECT_EQ(consumed, arrivals.size()) << "each piece is let go of once";
    EXPECT_TRUE(std::equal(sum.span().begin(), sum.span().end(), expected.span().begin()));
  }
}

TEST(OrderedSum, AddsRoundedPiecesInFloats) {
  const std::vector<Tensor> tensors{drawn(0), drawn(1)};
  Tensor sum(kShape);
  OrderedSum ordered(sum, 2, NumberType::bf16);
  std::vector<Tensor> rounded(2, Tensor(kShape));
  for (std::size_t member = 0; member < 2; ++member) {
    std::vector<std::byte> bytes(2 * sum.size());
    encode(NumberType::bf16, tensors[member].span(), bytes.data());
    decode(NumberType::bf16, bytes.data(), rounded[member].span());
    for (const wire::Envelope& piece : wire::make_pieces(tensors[member], NumberType::bf16)) {
      ordered.add(member, std::get<wire::Piece>(piece.message), piece.payload);
    }
  }
  ordered.advance([](std::size_t) {});
  ASSERT_TRUE(ordered.complete());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    ASSERT_EQ(sum.data()[i], rounded[0].data()[i] + rounded[1].data()[i]);
  }
}

TEST(OrderedSum, RefusesPiecesOutOfTurnAndTooMany) {
  const Tensor tensor = drawn(0);
  const auto pieces = wire::make_pieces(tensor);
  Tensor sum(kShape);
  OrderedSum ordered(sum, 1);
  EXPECT_THROW(ordered.add(0, std::get<wire::Piece>(pieces[1].message), pieces[1].payload), Error);
  for (const wire::Envelope& piece : pieces) ordered.add(0, std::get<wire::Piece>(piece.message), piece.payload);
  EXPECT_THROW(ordered.add(0, std::get<wire::Piece>(pieces[0].message), pieces[0].payload), Error);
}

}  // namespace
}  // namespace convoy
