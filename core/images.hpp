// Images in the form in which data sets hold them and in which they travel: a byte for each pixel, with the mean and
// deviation by which pixels are normalised.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/stage.hpp"
#include "core/tensor.hpp"

namespace convoy {

/// A byte for each (sample, channel, row, column).
using Pixels = BasicTensor<std::uint8_t>;

/// Normalises the pixels of a channel: (pixel / 255 - mean) / deviation.
struct ChannelScale {
  double mean = 0.0;
  double deviation = 1.0;
  bool operator==(const ChannelScale&) const = default;
};

/// Throws Error naming the first channel whose deviation is not above 0, or in which a pixel would become infinite or
/// NaN.
void validate(const std::vector<ChannelScale>& scales);

/// How a sample is cut from an image: the image is moved by some rows and columns, and mirrored before that.
struct ImageView {
  int down = 0;   ///< row of the image at the top of the sample
  int right = 0;  ///< column of the image, or of the mirrored image, at the left of the sample
  bool flip = false;
  bool operator==(const ImageView&) const = default;
};

/// The image of which a sample is a view.
struct Original {
  std::span<const std::uint8_t> pixels = {};  ///< (channel, row, column); empty if the sample is its own original
  ImageView view = {};
};

/// The images of a batch. A net computes on their normalised pixels.
struct Images {
  Pixels pixels;
  std::vector<ChannelScale> scales;  ///< one for each channel
  /// For each sample, the image from which it was cut, if batches to come will have the same image again; else empty.
  /// The memory is that of the data set.
  std::vector<Original> originals = {};
  std::vector<std::uint8_t> fill = {};  ///< with originals: the pixel outside of an image, for each channel
  const Shape& shape() const { return pixels.shape(); }
};

/// Writes the view of an image with `shape.c` channels, `shape.h` rows and `shape.w` columns to `to`, which has the
/// same shape. Pixels outside of the image are those of `fill`.
void move_image(std::span<const std::uint8_t> image, const Shape& shape, const ImageView& view,
                std::span<const std::uint8_t> fill, std::span<std::uint8_t> to);

/// Returns images of noise for measurements; their normalised values are uniform from -1 to 1. `seed` and `stream`
/// choose the random numbers, as for Random.
Images noise_images(const Shape& shape, std::uint64_t seed, std::uint64_t stream);

/// Turns pixels into the floats that a net reads. Division and subtraction are in double, and the quotient is rounded
/// to float, so every machine computes the same bits.
class Normaliser {
 public:
  /// From now on, normalises with these scales, one for each channel.
  void use(const std::vector<ChannelScale>& scales);
  /// Normalises some samples of `from` to the same samples of `to`. `from` has as many channels as there are scales.
  void normalise(const Pixels& from, SampleRange samples, Tensor& to) const;
  /// Normalises the pixels of samples that consist of these channels, each with `map` pixels; `to` has as many elements
  /// as `pixels`.
  template <class T>
  void normalise(std::span<const std::uint8_t> pixels, FilterRange channels, std::size_t map, T* to) const {
    for (std::size_t at = 0; at < pixels.size();) {
      for (int c = channels.first; c < channels.first + channels.count; ++c) {
        const float* table = values_.data() + kLevels * static_cast<std::size_t>(c);
        for (const std::uint8_t pixel : pixels.subspan(at, map)) *to++ = static_cast<T>(table[pixel]);
        at += map;
      }
    }
  }
  /// The normalised value of each of the 256 levels of a pixel, by channel.
  std::span<const float> table() const { return values_; }
  static constexpr std::size_t kLevels = 256;

 private:
  std::vector<ChannelScale> scales_;
  std::vector<float> values_;  ///< see table()
};

}  // namespace convoy
