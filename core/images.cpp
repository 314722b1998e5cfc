#include "core/images.hpp"

#include <cmath>
#include <limits>

#include "core/random.hpp"

namespace convoy {
namespace {

constexpr double kBrightest = 255.0;

double normalised(double pixel, const ChannelScale& scale) {
  return (pixel / kBrightest - scale.mean) / scale.deviation;
}

}  // namespace

void validate(const std::vector<ChannelScale>& scales) {
  const auto fits = [](double value) { return std::abs(value) <= std::numeric_limits<float>::max(); };
  for (std::size_t c = 0; c < scales.size(); ++c) {
    const ChannelScale& scale = scales[c];
    const bool positive = scale.deviation > 0.0 && std::isfinite(scale.deviation);
    // All pixels lie between the darkest and the brightest one.
    if (positive && fits(normalised(0.0, scale)) && fits(normalised(kBrightest, scale))) continue;
    fail(
        "channel {} of the images has mean {} and deviation {}; the deviation must be above 0, and normalised pixels "
        "must be finite",
        c, scale.mean, scale.deviation);
  }
}

void move_image(std::span<const std::uint8_t> image, const Shape& shape, const ImageView& view,
                std::span<const std::uint8_t> fill, std::span<std::uint8_t> to) {
  invariant(image.size() == shape.sample_size() && to.size() == image.size() &&
                fill.size() == static_cast<std::size_t>(shape.c),
            "a view has the shape of its image, and each channel has a pixel for the outside");
  std::uint8_t* next = to.data();
  for (int c = 0; c < shape.c; ++c) {
    const std::uint8_t* map = image.data() + static_cast<std::ptrdiff_t>(c) * shape.h * shape.w;
    for (int y = 0; y < shape.h; ++y) {
      const int from_y = y + view.down;
      const bool inside = from_y >= 0 && from_y < shape.h;
      for (int x = 0; x < shape.w; ++x) {
        const int from_x = (view.flip ? shape.w - 1 - x : x) + view.right;
        *next++ = inside && from_x >= 0 && from_x < shape.w
                      ? map[static_cast<std::ptrdiff_t>(from_y) * shape.w + from_x]
                      : fill[c];
      }
    }
  }
}

Images noise_images(const Shape& shape, std::uint64_t seed, std::uint64_t stream) {
  Images images{Pixels(shape), std::vector<ChannelScale>(static_cast<std::size_t>(shape.c), {0.5, 0.5})};
  Random random(seed, stream);
  for (std::uint8_t& pixel : images.pixels.span()) pixel = static_cast<std::uint8_t>(random.below(Normaliser::kLevels));
  return images;
}

void Normaliser::use(const std::vector<ChannelScale>& scales) {
  if (scales == scales_) return;
  scales_ = scales;
  values_.clear();
  for (const ChannelScale& scale : scales_) {
    for (std::size_t pixel = 0; pixel < kLevels; ++pixel) {
      values_.push_back(static_cast<float>(normalised(static_cast<double>(pixel), scale)));
    }
  }
}

void Normaliser::normalise(const Pixels& from, SampleRange samples, Tensor& to) const {
  invariant(from.shape() == to.shape() && scales_.size() == static_cast<std::size_t>(from.shape().c),
            "normalised images have the shape of their pixels, and a scale for each channel");
  const std::size_t map = from.shape().sample_size() / scales_.size();
  normalise(from.samples(samples.first, samples.count), {0, from.shape().c}, map,
            to.samples(samples.first, samples.count).data());
}

}  // namespace convoy
