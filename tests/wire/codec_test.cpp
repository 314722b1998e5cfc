#include "wire/codec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/random.hpp"
#include "tests/wire/samples.hpp"

namespace convoy::wire {
namespace {

using testing::HasSubstr;

/// One message of each kind; every field has a value of its own.
std::vector<Message> samples() {
  return {Hello{1, "garage", "oneDNN", 4, 123456789012, 16, {"a", "b"}, 5571, "key", 1.25},
          Welcome{1, "lenet"},
          Refused{"full"},
          Bye{"done"},
          Ping{5, true},
          Attach{"garage"},
          Calibrate{sample_stage(), 5, 8, true, 3},
          Calibrated{0.125, 0.25, 0.5, 0.75},
          sample_assign(),
          Load{1, {3, 4}, {{0x1122334455667788U, 9}, {1, 2}}, NumberType::bf16, false},
          Step{9,
               {.update = UpdateStep{Optimizer::adam, 0.5F, 0.25F, 0.125F, 0.75F, 0.0625F, 1.5F, 2.5F, 3.5F},
                .pass = Pass{.training = true, .seed = 0x1122334455667788, .squares = true},
                .scales = {{0.5, 0.25}, {-1.5, 2.0}}}},
          Snapshot{1, {0, 2}, true, NumberType::fp16},
          Piece{1, 2, 3},
          Credit{4},
          Done{1.5,
               2.5,
               3.5,
               {0.5, 1.0},
               {1, 3},
               MachineEnergy{"battery", "board", "measured", 4.5, 5.5, 6.5, 7.5, 1.25, 1.5, 1.75, 8.5, 9.5, 10.5, 11.5,
                             "short", 0.125, 5, 6, 12.5}},
          Failed{"no memory"},
          Unreached{{"attic", "cellar"}},
          Probe{16},
          Assigned{"token"},
          Leaving{},
          Probed{{0.25, 4.0}},
          Squares{1.5},
          Move{},
          Wanted{2, {0, 3}},
          Originals{9, 2, {{0x1122334455667788U, 9}, {1, 2}}, {{-3, 4, true}, {0, 1, false}}, {7, 8, 9}},
          Missing{9, 2, {0, 3}}};
}

std::string hex(const std::vector<std::byte>& bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

/// Compares encoded bytes, because messages have no operator==.
void expect_same(const Message& a, const Message& b) {
  EXPECT_EQ(a.index(), b.index());
  EXPECT_EQ(hex(encode(a)), hex(encode(b)));
}

TEST(Codec, RoundTripOfEveryMessage) {
  ASSERT_EQ(samples().size(), std::variant_size_v<Message>);
  for (std::size_t i = 0; i < samples().size(); ++i) {
    EXPECT_EQ(samples()[i].index(), i) << "the samples are in the order of the kinds";
    expect_same(decode(encode(samples()[i])), samples()[i]);
  }
}

TEST(Codec, KeepsEveryField) {
  const auto assign = std::get<Assign>(decode(encode(samples()[8])));
  EXPECT_EQ(assign.trunk, (std::vector<Stage>{sample_stage(), next_stage()}));
  EXPECT_EQ(assign.plan, sample_assign().plan);
  EXPECT_EQ(assign.peers, sample_assign().peers);
  EXPECT_EQ(assign.client_keys, sample_assign().client_keys);
  ASSERT_EQ(assign.moves.size(), 1U);
  EXPECT_EQ(assign.moves[0].stage_index, 1U);
  EXPECT_EQ(assign.moves[0].filters, (FilterRange{2, 5}));
  EXPECT_EQ(assign.moves[0].from, 1);
  EXPECT_EQ(assign.moves[0].to, 0);
  EXPECT_FALSE(std::get<Load>(decode(encode(samples()[9]))).moments);
  EXPECT_TRUE(std::get<Snapshot>(decode(encode(samples()[11]))).moments);
  const auto step = std::get<Step>(decode(encode(samples()[10])));
  EXPECT_TRUE(step.work.trains());
  EXPECT_EQ(step.work.pass->seed, 0x1122334455667788U);
  EXPECT_TRUE(step.work.pass->squares);
  EXPECT_EQ(step.work.scales, (std::vector<ChannelScale>{{0.5, 0.25}, {-1.5, 2.0}}));
  EXPECT_EQ(step.work.update, std::get<Step>(samples()[10]).work.update);
  const MachineEnergy energy = std::get<Done>(decode(encode(samples()[14]))).energy.value();
  EXPECT_EQ(energy.refresh, 0.125);
  EXPECT_EQ(energy.wraps, 5U);
  EXPECT_EQ(energy.gaps, 6U);
  EXPECT_EQ(energy.gap_seconds, 12.5);
  const auto originals = std::get<Originals>(decode(encode(samples()[24])));
  EXPECT_EQ(originals.views, (std::vector<ImageView>{{-3, 4, true}, {0, 1, false}}));
  EXPECT_EQ(originals.fill, (std::vector<std::uint8_t>{7, 8, 9}));
  EXPECT_EQ(originals.contents, (std::vector<Content>{{0x1122334455667788U, 9}, {1, 2}}));
  const auto hello = std::get<Hello>(decode(encode(samples()[0])));
  EXPECT_EQ(hello.memory, 123456789012U);
  EXPECT_EQ(hello.memory_factor, 1.25);
  EXPECT_EQ(hello.capabilities, (std::vector<std::string>{"a", "b"}));
}

/// A field that was added at the end of a table has its default where an earlier release has sent the message.
TEST(Codec, AHelloOfAnEarlierReleaseHasNoMemoryFactor) {
  const std::string earlier =
      "100000004356593208000e000700080008000000000000011c000000000016003000040008000c0010002400140018001c00"
      "200016000000010000005800000048000000040000001000000020000000c315000010000000141a99be1c00000000000000"
      "030000006b65790002000000100000000400000001000000620000000100000061000000060000006f6e65444e4e00000600"
      "00006761726167650000";
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < earlier.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(earlier.substr(i, 2), nullptr, 16)));
  }
  const auto hello = std::get<Hello>(decode(bytes));
  EXPECT_EQ(hello.name, "garage");
  EXPECT_EQ(hello.memory_factor, 0.0);
}

/// Pins the bytes that masters and slaves of other releases send. They may change only with kProtocolVersion.
TEST(Codec, GoldenBytes) {
  const std::vector<std::string> golden = {
#include "tests/wire/golden.inc"
  };
  ASSERT_EQ(golden.size(), samples().size());
  for (std::size_t i = 0; i < golden.size(); ++i)
    EXPECT_EQ(hex(encode(samples()[i])), golden[i]) << name_of(samples()[i]);
}

TEST(Codec, EveryTruncationIsRefused) {
  for (const Message& message : samples()) {
    const std::vector<std::byte> bytes = encode(message);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      // A buffer cut within its last padding bytes may still decode. A cut buffer must never crash the decoder.
      try {
        decode(std::span(bytes).first(length));
      } catch (const Error&) {
      }
    }
    EXPECT_THROW(decode(std::span(bytes).first(bytes.size() / 2)), Error) << name_of(message);
  }
}

TEST(Codec, MutationsDecodeToAMessageOrAnError) {
  Random random(1, 1);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto all = samples();
    std::vector<std::byte> bytes = encode(all[random.below(static_cast<std::uint32_t>(all.size()))]);
    for (std::uint32_t i = 1 + random.below(4); i > 0; --i) {
      bytes[random.below(static_cast<std::uint32_t>(bytes.size()))] = static_cast<std::byte>(random.below(256));
    }
    try {
      encode(decode(bytes));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Codec, RefusesWhatIsNoMessage) {
  const auto expect_refused = [](std::vector<std::byte> bytes, const char* expected) {
    try {
      decode(bytes);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(expected));
    }
  };
  expect_refused({}, "the bytes are not a message of Convoy");
  expect_refused(std::vector<std::byte>(100), "not a message of Convoy");
  expect_refused(std::vector<std::byte>(2 << 20), "the header has 2097152 bytes");
  std::vector<std::byte> other = encode(Ping{});
  other[7] = static_cast<std::byte>('9');
  expect_refused(other, "CVY2");
}

}  // namespace
}  // namespace convoy::wire
