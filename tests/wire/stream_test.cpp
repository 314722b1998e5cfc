#include "wire/stream.hpp"
#include "tests/support/states.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace convoy::wire {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<float> counting(std::size_t count, float from) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), from);
  return values;
}

std::vector<Envelope> cut(const Piece& begin, const std::vector<std::span<const float>>& values) {
  std::vector<Envelope> pieces;
  send_values(begin, values, [&](const Envelope& piece) { pieces.push_back(piece); });
  return pieces;
}

TEST(Values, TravelAsPiecesAndComeTogether) {
  // The sizes are: less than one Piece, no values, several Pieces, and exactly one Piece.
  const std::vector<float> a = counting(7, 0.0F);
  const std::vector<float> c = counting(600001, 1e6F);
  const std::vector<float> d = counting(kPieceBytes / sizeof(float), 5e6F);
  const auto pieces = cut({.step = 0, .task = 3, .first = 0}, {a, {}, c, d});
  ASSERT_EQ(pieces.size(), 1U + 3U + 1U);
  std::vector<float> x(a.size());
  std::vector<float> y(c.size());
  std::vector<float> z(d.size());
  ValueReader reader({x, {}, y, z});
  for (const Envelope& envelope : pieces) {
    EXPECT_FALSE(reader.complete());
    EXPECT_LE(envelope.payload.size(), kPieceBytes);
    const auto& piece = std::get<Piece>(envelope.message);
    EXPECT_EQ(piece.task, 3U);
    reader.add(piece, envelope.payload);
  }
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(x, a);
  EXPECT_EQ(y, c);
  EXPECT_EQ(z, d);
}

TEST(Values, OutOfTurnAreRefused) {
  std::vector<float> values(10);
  ValueReader reader({values});
  EXPECT_THAT([&] { reader.add({.first = 1}, Payload(4)); }, ThrowsMessage<Error>(HasSubstr("from value 1 on")));
  EXPECT_THAT([&] { reader.add({.first = 0}, Payload(44)); },
              ThrowsMessage<Error>(HasSubstr("at most 10 values are due")));
  EXPECT_THAT([&] { reader.add({.first = 0}, Payload(6)); },
              ThrowsMessage<Error>(HasSubstr("6 bytes, which are not a whole number of values of 4 bytes")));
  EXPECT_THAT([&] { reader.add({.first = 0}, Payload(0)); }, ThrowsMessage<Error>(HasSubstr("a Piece has 0 values")));
  reader.add({.first = 0}, Payload(40));
  EXPECT_TRUE(reader.complete());
  EXPECT_THAT([&] { reader.add({.first = 10}, Payload(4)); },
              ThrowsMessage<Error>(HasSubstr("at most 0 values are due")));
}

TEST(Values, OfAState) {
  const Stage stage{
      .name = "conv", .channels = 2, .height = 5, .width = 5, .conv = {.filters = 3, .kernel_h = 3, .kernel_w = 3}};
  ShardState state = zero_state(stage, 3);
  float next = 1.0F;
  for (const std::span<float> part : values_of(state)) {
    for (float& value : part) value = next++;
  }
  EXPECT_EQ(next, 1.0F + 2.0F * (54 + 3));
  ShardState again = zero_state(stage, 3);
  ValueReader reader(values_of(again));
  for (const Envelope& piece : cut({}, values_of(std::as_const(state)))) {
    reader.add(std::get<Piece>(piece.message), piece.payload);
  }
  EXPECT_TRUE(reader.complete());
  EXPECT_TRUE(same_bits(again, state));
}

/// Trained parameters in half the bytes, rounded as encode() does; running averages as they are.
TEST(Values, OfAStateTravelInSixteenBits) {
  const Stage stage{.name = "conv",
                    .channels = 2,
                    .height = 5,
                    .width = 5,
                    .conv = {.filters = 3, .kernel_h = 3, .kernel_w = 3},
                    .after = {BatchNorm{.name = "norm"}},
                    .moments = 0};
  ShardState state = zero_state(stage, 3);
  float next = 1.0F;
  for (const std::span<float> part : values_of(state)) {
    for (float& value : part) value = 1.001F * next++;
  }
  for (const NumberType type : {NumberType::fp32, NumberType::bf16, NumberType::fp16}) {
    std::vector<Envelope> pieces;
    send_values({}, values_of(std::as_const(state), stage, type),
                [&](const Envelope& piece) { pieces.push_back(piece); });
    std::size_t bytes = 0;
    ShardState again = zero_state(stage, 3);
    ValueReader reader(values_of(again, stage, type));
    for (const Envelope& piece : pieces) {
      bytes += piece.payload.size();
      reader.add(std::get<Piece>(piece.message), piece.payload);
    }
    EXPECT_TRUE(reader.complete());
    // The weights and biases of the convolution and of the norm are trained.
    EXPECT_EQ(bytes, bytes_of(type, 54 + 3 + 3 + 3) + 4 * (3 + 3));
    ShardState rounded = state;
    for (std::size_t p = 0; p + 2 < rounded.parameters.size(); ++p) {
      round_to(type, rounded.parameters[p].value.span());
    }
    EXPECT_TRUE(same_bits(again, rounded));
    EXPECT_EQ(type == NumberType::fp32, same_bits(again, state));
  }
}

TEST(Values, InSixteenBitsAreCounted) {
  std::vector<float> values(10);
  ValueReader reader(std::vector<Typed<float>>{{values, NumberType::bf16}});
  EXPECT_THAT([&] { reader.add({.first = 0}, Payload(22)); }, ThrowsMessage<Error>(HasSubstr("a Piece has 11 values")));
  EXPECT_THAT([&] { reader.add({.first = 0}, Payload(7)); },
              ThrowsMessage<Error>(HasSubstr("7 bytes, which are not a whole number of values of 2 bytes")));
  reader.add({.first = 0}, Payload(20));
  EXPECT_TRUE(reader.complete());
}

TEST(Payloads, AreSharedNotCopied) {
  Payload one(1024);  // ZeroMQ copies small messages
  one.floats()[1] = 3.0F;
  const Payload two = one;
  EXPECT_EQ(two.bytes().data(), std::as_const(one).bytes().data());
  EXPECT_EQ(two.floats()[1], 3.0F);
  const Payload odd(5);
  EXPECT_THROW(odd.floats(), Error);
}

TEST(Payloads, KeepTheOwnerOfTheirBytes) {
  const auto owner = std::make_shared<std::vector<std::byte>>(16, std::byte{7});
  const std::weak_ptr<const void> watch = owner;
  {
    Payload all;
    {
      const Payload shown(owner, *owner);
      EXPECT_EQ(shown.bytes().data(), owner->data());
      all = shown;
    }
    EXPECT_EQ(owner.use_count(), 2) << "one reference of the test, and one that all payloads share";
    EXPECT_EQ(all.bytes()[15], std::byte{7});
  }
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace
}  // namespace convoy::wire
