#include "wire/stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace convoy {

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.n << '_' << shape.c << '_' << shape.h << '_' << shape.w;
}

}  // namespace convoy

namespace convoy::wire {
namespace {

using testing::HasSubstr;

Tensor counting(const Shape& shape) {
  Tensor tensor(shape);
  std::iota(tensor.span().begin(), tensor.span().end(), 0.0F);
  return tensor;
}

bool equal(const Tensor& a, const Tensor& b) {
  return std::equal(a.span().begin(), a.span().end(), b.span().begin(), b.span().end());
}

class Shapes : public testing::TestWithParam<Shape> {};

TEST_P(Shapes, PiecesMakeTheTensorAgain) {
  const Tensor tensor = counting(GetParam());
  const std::vector<Envelope> pieces = make_pieces(tensor);
  const std::vector<Piece> cut = cut_pieces(tensor.shape());
  ASSERT_EQ(pieces.size(), cut.size());
  Tensor again(tensor.shape(), -1.0F);
  Assembler assembler(again.shape(), again.span());
  for (std::size_t i = pieces.size(); i-- > 0;) {  // any order will do
    EXPECT_FALSE(assembler.complete());
    EXPECT_LE(pieces[i].payload.size(), std::max(kFrameBytes, sizeof(float) * tensor.shape().h * tensor.shape().w));
    EXPECT_EQ(std::get<Piece>(pieces[i].message), cut[i]);
    assembler.add(cut[i], pieces[i].payload);
  }
  EXPECT_TRUE(assembler.complete());
  EXPECT_TRUE(equal(tensor, again));
}

INSTANTIATE_TEST_SUITE_P(Odd, Shapes,
                         testing::Values(Shape{1, 1, 1, 1}, Shape{7, 5, 3, 2}, Shape{300, 3, 32, 32},
                                         Shape{3, 700, 20, 21}, Shape{2, 3, 600, 601}, Shape{1, 2, 1024, 1024},
                                         Shape{65, 1, 1, 1}),
                         testing::PrintToStringParamName());

TEST(Pieces, OfAChannelRange) {
  const Tensor tensor = counting({3, 7, 2, 5});
  const FilterRange range{2, 4};
  const Tensor slice = channel_slice(tensor, range);
  Tensor again(slice.shape());
  Assembler assembler(again.shape(), again.span());
  for (const Envelope& piece : make_pieces(tensor, range)) {
    assembler.add(std::get<Piece>(piece.message), piece.payload);
  }
  EXPECT_TRUE(assembler.complete());
  EXPECT_TRUE(equal(slice, again));
  EXPECT_EQ(slice.at(1, 0, 1, 2), tensor.at(1, 2, 1, 2));
}

TEST(Pieces, In16Bits) {
  Tensor tensor = counting({3, 7, 20, 50});
  for (float& value : tensor.span()) value /= 3.0F;
  for (const NumberType type : {NumberType::bf16, NumberType::fp16}) {
    Tensor again(tensor.shape());
    Assembler assembler(again.shape(), again.span(), type);
    for (const Envelope& piece : make_pieces(tensor, type)) {
      const auto& extents = std::get<Piece>(piece.message);
      EXPECT_EQ(piece.payload.size(), 2U * extents.samples * extents.channels * 20 * 50);
      assembler.add(extents, piece.payload);
    }
    EXPECT_TRUE(assembler.complete());
    Tensor rounded(tensor.shape());
    std::vector<std::byte> bytes(2 * tensor.size());
    encode(type, tensor.span(), bytes.data());
    decode(type, bytes.data(), rounded.span());
    EXPECT_TRUE(equal(rounded, again));
    EXPECT_FALSE(equal(tensor, again));
  }
}

TEST(Pieces, OfAnotherTypeAreRefused) {
  const Tensor tensor = counting({1, 2, 3, 3});
  Assembler assembler(tensor.shape(), {}, NumberType::bf16);
  const Envelope piece = make_pieces(tensor).front();
  EXPECT_THROW(assembler.add(std::get<Piece>(piece.message), piece.payload), Error);
}

TEST(Pieces, FromSeveralSenders) {
  const Tensor tensor = counting({4, 9, 3, 3});
  Tensor again(tensor.shape());
  Assembler assembler(again.shape(), again.span());
  for (const FilterRange range : {FilterRange{5, 4}, {0, 2}, {2, 3}}) {
    for (const Envelope& envelope : make_pieces(tensor, range)) {
      Piece piece = std::get<Piece>(envelope.message);
      piece.channel += static_cast<std::uint32_t>(range.first);
      assembler.add(piece, envelope.payload);
    }
  }
  EXPECT_TRUE(assembler.complete());
  EXPECT_TRUE(equal(tensor, again));
}

TEST(Pieces, OfAState) {
  const Stage stage{
      .name = "s", .channels = 3, .height = 8, .width = 8, .conv = {.filters = 5, .kernel_h = 3, .kernel_w = 3}};
  ShardState state = zero_state(stage, 5);
  float next = 0.0F;
  for (const auto part :
       {&ShardState::weights, &ShardState::bias, &ShardState::weight_velocity, &ShardState::bias_velocity}) {
    for (float& value : (state.*part).span()) value = next++;
  }
  ShardState again = zero_state(stage, 5);
  StateAssembler assembler(again);
  for (const Envelope& envelope : make_state_pieces(state)) {
    EXPECT_FALSE(assembler.complete());
    assembler.add(std::get<Piece>(envelope.message), envelope.payload);
  }
  EXPECT_TRUE(assembler.complete());
  EXPECT_TRUE(equal(state.weights, again.weights) && equal(state.bias, again.bias));
  EXPECT_TRUE(equal(state.weight_velocity, again.weight_velocity) && equal(state.bias_velocity, again.bias_velocity));
}

TEST(Pieces, RefuseMapsBeyondAMessage) { EXPECT_THROW(cut_pieces({1, 1, 1 << 12, 1 << 12}), Error); }

TEST(Payload, SharesItsBytesAndChecksFloats) {
  Payload a(4096);
  a.floats()[2] = 5.0F;
  const Payload b = a;
  EXPECT_EQ(b.floats().data(), std::as_const(a).floats().data()) << "a copy is a reference";
  EXPECT_THROW(Payload(7).floats(), Error);
  EXPECT_TRUE(Payload().empty());
}

struct BadPiece {
  const char* name;
  Piece piece;
  std::size_t values;
  const char* expected;
};

void PrintTo(const BadPiece& bad, std::ostream* out) { *out << bad.name; }

class BadPieces : public testing::TestWithParam<BadPiece> {};

TEST_P(BadPieces, AreRefused) {
  Tensor tensor({4, 6, 2, 2}, 0.0F);
  Assembler assembler(tensor.shape(), tensor.span());
  const std::vector<float> values(GetParam().values, 1.0F);
  assembler.add({0, 1, 1, 2, 2}, std::vector<float>(8));
  try {
    assembler.add(GetParam().piece, values);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().expected));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, BadPieces,
                         testing::Values(BadPiece{"Part", {1, 0, 1, 0, 1}, 4, "outside its tensor"},
                                         BadPiece{"Sample", {0, 4, 1, 0, 1}, 4, "outside its tensor"},
                                         BadPiece{"Samples", {0, 3, 2, 0, 1}, 8, "outside its tensor"},
                                         BadPiece{"Channel", {0, 0, 1, 6, 1}, 4, "outside its tensor"},
                                         BadPiece{"Channels", {0, 0, 1, 4, 3}, 12, "outside its tensor"},
                                         BadPiece{"WrapsAround", {0, 1, 0xFFFFFFFF, 1, 1}, 4, "outside its tensor"},
                                         BadPiece{"NoSamples", {0, 0, 0, 0, 1}, 0, "outside its tensor"},
                                         BadPiece{"FewValues", {0, 0, 1, 0, 2}, 7, "28 bytes where 32"},
                                         BadPiece{"ManyValues", {0, 0, 1, 0, 2}, 9, "36 bytes where 32"},
                                         BadPiece{"Again", {0, 1, 1, 2, 2}, 8, "what came before"},
                                         BadPiece{"Overlap", {0, 0, 2, 3, 1}, 8, "what came before"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace convoy::wire
