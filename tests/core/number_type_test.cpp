#include "core/number_type.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "core/random.hpp"

namespace convoy {
namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

std::vector<std::uint16_t> encoded(NumberType type, const std::vector<float>& values) {
  std::vector<std::uint16_t> result(values.size());
  encode(type, values, reinterpret_cast<std::byte*>(result.data()));
  return result;
}

std::vector<float> decoded(NumberType type, const std::vector<std::uint16_t>& values) {
  std::vector<float> result(values.size());
  decode(type, reinterpret_cast<const std::byte*>(values.data()), result);
  return result;
}

class SixteenBits : public testing::TestWithParam<NumberType> {
 protected:
  /// All values of the type.
  static std::vector<std::uint16_t> all() {
    std::vector<std::uint16_t> values(65536);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i);
    return values;
  }
};

/// In one go and in several.
TEST_P(SixteenBits, ValuesAreRoundedAsTheyTravel) {
  Random random(3, 1);
  for (const std::size_t count : {0U, 1U, 4096U, 10001U}) {
    std::vector<float> values(count);
    for (float& value : values) value = random.uniform(-3.0F, 3.0F);
    const std::vector<float> expected = decoded(GetParam(), encoded(GetParam(), values));
    std::vector<float> same = values;
    round_to(NumberType::fp32, same);
    EXPECT_EQ(same, values);
    round_to(GetParam(), values);
    EXPECT_EQ(values, expected);
  }
}

TEST_P(SixteenBits, AreAddedAsTheyWouldBeAfterDecoding) {
  Random random(5, 1);
  for (const NumberType type : {GetParam(), NumberType::fp32}) {
    std::vector<float> values(101);
    std::vector<float> sums(values.size());
    for (float& value : values) value = random.uniform(-3.0F, 3.0F);
    for (float& value : sums) value = random.uniform(-3.0F, 3.0F);
    std::vector<std::byte> frame(bytes_of(type, values.size()));
    encode(type, values, frame.data());
    decode(type, frame.data(), values);
    std::vector<float> expected = sums;
    for (std::size_t i = 0; i < values.size(); ++i) expected[i] += values[i];
    decode_and_add(type, frame.data(), sums);
    EXPECT_EQ(sums, expected);
  }
}

TEST_P(SixteenBits, EveryValueSurvives) {
  const std::vector<std::uint16_t> values = all();
  const std::vector<float> floats = decoded(GetParam(), values);
  const std::vector<std::uint16_t> again = encoded(GetParam(), floats);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(floats[i])) {
      EXPECT_TRUE(std::isnan(decoded(GetParam(), {again[i]})[0])) << i;
    } else {
      EXPECT_EQ(again[i], values[i]);
    }
  }
}

/// Finds the nearest finite value by search, in double precision. Of two equally near values it takes the even one.
std::uint16_t nearest(const std::vector<std::pair<double, std::uint16_t>>& sorted, double value) {
  const auto above = std::ranges::lower_bound(sorted, value, {}, &std::pair<double, std::uint16_t>::first);
  if (above == sorted.begin()) return above->second;
  if (above == sorted.end()) return sorted.back().second;
  const auto below = above - 1;
  const double up = above->first - value;
  const double down = value - below->first;
  if (up == down) return above->second % 2 == 0 ? above->second : below->second;
  return up < down ? above->second : below->second;
}

TEST_P(SixteenBits, RoundsToNearestEven) {
  const std::vector<std::uint16_t> values = all();
  const std::vector<float> floats = decoded(GetParam(), values);
  std::vector<std::pair<double, std::uint16_t>> sorted;  // positive values only
  for (std::size_t i = 0; i < 32768; ++i) {
    if (std::isfinite(floats[i])) sorted.emplace_back(floats[i], values[i]);
  }
  ASSERT_TRUE(std::ranges::is_sorted(sorted));
  const auto largest = static_cast<float>(sorted.back().first);
  std::vector<float> tried;
  // The inputs are ties between two values, and the numbers just above and below the ties.
  for (std::size_t i = 0; i + 1 < sorted.size(); i += 7) {
    const auto tie = static_cast<float>((sorted[i].first + sorted[i + 1].first) / 2);
    tried.insert(tried.end(), {tie, std::nextafter(tie, 0.0F), std::nextafter(tie, largest)});
  }
  Random random(5, 6);
  while (tried.size() < 100000) {
    const float value = from_bits(random.next() & 0x7FFFFFFFU);
    if (value <= largest) tried.push_back(value);
  }
  const std::vector<std::uint16_t> got = encoded(GetParam(), tried);
  for (std::size_t i = 0; i < tried.size(); ++i) ASSERT_EQ(got[i], nearest(sorted, tried[i])) << tried[i];
  for (float& value : tried) value = -value;
  const std::vector<std::uint16_t> negative = encoded(GetParam(), tried);
  for (std::size_t i = 0; i < tried.size(); ++i) ASSERT_EQ(negative[i], got[i] | 0x8000U);
}

TEST_P(SixteenBits, KeepsWhatIsNoFiniteNumber) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> odd{infinity, -infinity, std::nanf(""), from_bits(0x7F800001U), from_bits(0x7FFFFFFFU)};
  const std::vector<float> got = decoded(GetParam(), encoded(GetParam(), odd));
  EXPECT_EQ(got[0], infinity);
  EXPECT_EQ(got[1], -infinity);
  for (std::size_t i = 2; i < odd.size(); ++i) EXPECT_TRUE(std::isnan(got[i])) << i;
}

TEST_P(SixteenBits, TakesAnyNumberOfValuesAtAnyPlace) {
  for (const std::size_t count : {0U, 1U, 7U, 16U, 33U}) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = 0.25F * static_cast<float>(i);
    std::vector<std::byte> frame(2 * count + 1);
    encode(GetParam(), values, frame.data() + 1);
    std::vector<float> again(count);
    decode(GetParam(), frame.data() + 1, again);
    EXPECT_EQ(again, values);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SixteenBits, testing::Values(NumberType::bf16, NumberType::fp16),
                         [](const auto& info) { return info.param == NumberType::bf16 ? "bf16" : "fp16"; });

TEST(NumberTypes, Fp16EndsAt65504) {
  EXPECT_EQ(encoded(NumberType::fp16, {65504.0F, 65519.0F, 65520.0F, 1e30F}),
            (std::vector<std::uint16_t>{0x7BFF, 0x7BFF, 0x7C00, 0x7C00}));
}

TEST(NumberTypes, Fp32IsItself) {
  const std::vector<float> values{1.5F, -0.0F, 3e-40F};
  std::vector<std::byte> frame(bytes_of(NumberType::fp32, values.size()));
  encode(NumberType::fp32, values, frame.data());
  EXPECT_EQ(std::memcmp(frame.data(), values.data(), frame.size()), 0);
}

std::vector<float> by_chance(const std::vector<float>& values, std::uint64_t seed) {
  std::vector<std::byte> frame(bytes_of(NumberType::int8, values.size()));
  encode_by_chance(values, frame.data(), seed);
  std::vector<float> again(values.size());
  decode(NumberType::int8, frame.data(), again);
  return again;
}

TEST(EightBits, HaveTheirSizes) {
  for (const std::size_t count : {1U, 5U, 63U, 64U, 65U, 128U, 1000U}) {
    EXPECT_EQ(values_in(NumberType::int8, bytes_of(NumberType::int8, count)), count);
  }
  EXPECT_EQ(bytes_of(NumberType::int8, 65), 73U);
  for (const std::size_t bytes : {1U, 4U, 69U, 72U}) EXPECT_EQ(values_in(NumberType::int8, bytes), 0U) << bytes;
  EXPECT_EQ(values_in(NumberType::bf16, 3), 0U);
}

/// A block of int8 may have values of two places.
TEST(NumberTypes, ValuesOfSeveralPlacesTravelLikeThoseOfOne) {
  Random random(7, 1);
  std::vector<float> values(200);
  for (float& value : values) value = random.uniform(-3.0F, 3.0F);
  const std::span<const float> all = values;
  for (const NumberType type : {NumberType::fp32, NumberType::bf16, NumberType::fp16, NumberType::int8}) {
    std::vector<std::byte> whole(bytes_of(type, values.size()));
    std::vector<std::byte> frame(whole.size());
    type == NumberType::int8 ? encode_by_chance(values, whole.data(), 9) : encode(type, values, whole.data());
    encode_places(type, {all.first(70), all.subspan(70, 1), all.subspan(71)}, frame.data(), 9);
    EXPECT_EQ(frame, whole);
  }
}

TEST(EightBits, AreOffByLessThanAStepAndRightOnAverage) {
  std::vector<float> values(100);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * (i < 64 ? 1.0F : 1e-6F);
  std::vector<double> sums(values.size());
  constexpr int kRounds = 4000;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<float> again = by_chance(values, static_cast<std::uint64_t>(round) << 20U);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_LT(std::abs(again[i] - values[i]), (i < 64 ? 1.0F : 1e-6F) / 126.0F);
      sums[i] += again[i];
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(sums[i] / kRounds, values[i], (i < 64 ? 1.0 : 1e-6) / 127.0 * 5.0 * 0.5 / std::sqrt(kRounds));
  }
}

TEST(EightBits, KeepZerosInfinitiesAndWhatIsNoNumber) {
  EXPECT_EQ(by_chance({0.0F, 0.0F}, 1), (std::vector<float>{0.0F, 0.0F}));
  EXPECT_EQ(by_chance({1e-40F, -1e-33F}, 1), (std::vector<float>{0.0F, 0.0F}));
  EXPECT_TRUE(std::isinf(by_chance({1.0F, INFINITY}, 1)[1]));
  EXPECT_TRUE(std::isnan(by_chance({NAN, 1.0F}, 1)[0]));
  EXPECT_TRUE(std::isnan(by_chance({1.0F, NAN}, 1)[1]));
}

}  // namespace
}  // namespace convoy
