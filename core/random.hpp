// Random numbers that are the same on every machine, compiler and number of threads. The generator is counter-based
// (Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). The distributions are
// defined here because those of the standard library differ between implementations.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace convoy {

/// Returns the 128 random bits at `counter` of the sequence with the key `key`.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// A sequence of random numbers named by (seed, stream). Equal names give equal sequences; different names give
/// independent ones.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  std::uint32_t next();
  /// Returns a number uniform in [0, 1), with 24 random bits.
  float uniform();
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  /// Returns a standard normal number (Box and Muller).
  float normal();
  /// Returns an integer uniform in 0 .. bound - 1, without bias.
  std::uint32_t below(std::uint32_t bound);
  /// Shuffles `items` in place (Fisher and Yates).
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[below(static_cast<std::uint32_t>(i))]);
    }
  }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  int used_ = 4;
};

/// Returns the factor by which dropout multiplies element (n, c, i) of a map: 0 with probability `rate`, otherwise 1 /
/// (1 - rate). c is the channel of the whole, unsplit map and i is row * width + column.
float dropout_scale(std::uint64_t seed, std::uint32_t stream, float rate, int n, int c, int i);

}  // namespace convoy
