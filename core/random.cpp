#include "core/random.hpp"

#include <cmath>
#include <numbers>

namespace convoy {
namespace {

std::pair<std::uint32_t, std::uint32_t> multiply(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = static_cast<std::uint64_t>(a) * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}

float to_unit(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1.0p-24F; }

std::array<std::uint32_t, 2> halves(std::uint64_t x) {
  return {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(x >> 32)};
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const auto [high0, low0] = multiply(0xD2511F53U, counter[0]);
    const auto [high1, low1] = multiply(0xCD9E8D57U, counter[2]);
    counter = {high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

std::uint32_t Random::next() {
  if (used_ == 4) {
    const auto block = halves(block_++);
    const auto stream = halves(stream_);
    words_ = philox({block[0], block[1], stream[0], stream[1]}, halves(seed_));
    used_ = 0;
  }
  return words_[used_++];
}

float Random::uniform() { return to_unit(next()); }

float Random::normal() {
  const float radius = std::sqrt(-2.0F * std::log(1.0F - uniform()));
  return radius * std::cos(2.0F * std::numbers::pi_v<float> * uniform());
}

std::uint32_t Random::below(std::uint32_t bound) {
  // The words below `rejected` are skipped, so that every remainder is equally likely.
  const std::uint32_t rejected = (0U - bound) % bound;
  std::uint32_t word = next();
  while (word < rejected) word = next();
  return word % bound;
}

float dropout_scale(std::uint64_t seed, std::uint32_t stream, float rate, int n, int c, int i) {
  const auto words =
      philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(n), stream},
             halves(seed));
  return to_unit(words[0]) < rate ? 0.0F : 1.0F / (1.0F - rate);
}

}  // namespace convoy
