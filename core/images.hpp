// Images as a data set has them and as they travel: a byte for each pixel, and what normalises the pixels.
#pragma once

#include <cstdint>
#include <vector>

#include "core/stage.hpp"
#include "core/tensor.hpp"

namespace convoy {

/// (sample, channel, row, column).
using Pixels = BasicTensor<std::uint8_t>;

/// Normalises the pixels of a channel: (pixel / 255 - mean) / deviation.
struct ChannelScale {
  double mean = 0.0;
  double deviation = 1.0;
  bool operator==(const ChannelScale&) const = default;
};

/// Throws Error naming the first channel whose deviation is not above 0, or in which a pixel would become infinite or NaN.
void validate(const std::vector<ChannelScale>& scales);

/// The images of a batch. A net computes on their normalised pixels.
struct Images {
  Pixels pixels;
  std::vector<ChannelScale> scales;  ///< one for each channel
  const Shape& shape() const { return pixels.shape(); }
};

/// Returns images of noise, uniform from -1 to 1 when they are normalised, for measurements. Stream and seed are those of a
/// Random.
Images noise_images(const Shape& shape, std::uint64_t seed, std::uint64_t stream);

/// Turns pixels into the floats that a net reads. Division and subtraction are in double, and the quotient is rounded to
/// float, so every machine computes the same bits.
class Normaliser {
 public:
  /// Takes the scales of all channels from now on.
  void use(const std::vector<ChannelScale>& scales);
  /// Normalises some samples of `from`, of which each channel has a scale, to the same samples of `to`.
  void normalise(const Pixels& from, SampleRange samples, Tensor& to) const;

 private:
  std::vector<ChannelScale> scales_;
  std::vector<float> values_;  ///< by channel, the normalised value of each byte
};

}  // namespace convoy
