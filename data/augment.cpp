#include "data/augment.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace convoy {
namespace {

constexpr double kNarrowest = 3.0 / 4.0;
constexpr double kWidest = 4.0 / 3.0;

double drawn_between(double low, double high, Random& random) {
  return low + (high - low) * static_cast<double>(random.uniform());
}

std::uint8_t byte_of(double value) { return static_cast<std::uint8_t>(std::clamp(value + 0.5, 0.0, 255.0)); }

std::size_t places_in(const FeatureShape& shape) {
  return static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
}

/// The grey value of a place.
int grey_at(std::span<const std::uint8_t> pixels, const FeatureShape& shape, std::size_t place) {
  if (shape.channels != 3) return pixels[place];
  const std::size_t map = places_in(shape);
  return grey_of(pixels[place], pixels[map + place], pixels[2 * map + place]);
}

void blend(std::span<std::uint8_t> pixels, double factor, double with) {
  for (std::uint8_t& each : pixels) each = byte_of(factor * each + (1.0 - factor) * with);
}

void change_contrast(std::span<std::uint8_t> pixels, const FeatureShape& shape, double factor) {
  double sum = 0.0;
  for (std::size_t place = 0; place < places_in(shape); ++place) sum += grey_at(pixels, shape, place);
  blend(pixels, factor, std::floor(sum / static_cast<double>(places_in(shape)) + 0.5));
}

void change_saturation(std::span<std::uint8_t> pixels, const FeatureShape& shape, double factor) {
  if (shape.channels != 3) return;
  for (std::size_t place = 0; place < places_in(shape); ++place) {
    const int grey = grey_at(pixels, shape, place);
    for (std::size_t c = 0; c < 3; ++c) blend(pixels.subspan(c * places_in(shape) + place, 1), factor, grey);
  }
}

}  // namespace

Region random_part(const FeatureShape& picture, double least, Random& random) {
  constexpr int kTries = 10;
  const double height = picture.height;
  const double width = picture.width;
  for (int i = 0; i < kTries; ++i) {
    const double area = height * width * drawn_between(least, 1.0, random);
    const double ratio = std::exp(drawn_between(std::log(kNarrowest), std::log(kWidest), random));
    const double columns = std::round(std::sqrt(area * ratio));
    const double rows = std::round(std::sqrt(area / ratio));
    if (columns < 1.0 || columns > width || rows < 1.0 || rows > height) continue;
    const double top = random.below(static_cast<std::uint32_t>(height - rows) + 1);
    const double left = random.below(static_cast<std::uint32_t>(width - columns) + 1);
    return {top, left, rows, columns};
  }
  const double ratio = std::clamp(width / height, kNarrowest, kWidest);
  const double columns = std::min(width, std::round(height * ratio));
  const double rows = std::min(height, std::round(width / ratio));
  return {std::floor((height - rows) / 2.0), std::floor((width - columns) / 2.0), rows, columns};
}

void jitter_colours(std::span<std::uint8_t> pixels, const FeatureShape& shape, const Augmentation& augment,
                    Random& random) {
  const auto factor = [&random](double most) { return drawn_between(1.0 - most, 1.0 + most, random); };
  const double brightness = factor(augment.brightness);
  const double contrast = factor(augment.contrast);
  const double saturation = factor(augment.saturation);
  std::vector<int> order(3);
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(order);
  for (const int each : order) {
    if (each == 0 && augment.brightness > 0.0) blend(pixels, brightness, 0.0);
    if (each == 1 && augment.contrast > 0.0) change_contrast(pixels, shape, contrast);
    if (each == 2 && augment.saturation > 0.0) change_saturation(pixels, shape, saturation);
  }
}

void cut_square_out(std::span<std::uint8_t> pixels, const FeatureShape& shape, int side,
                    std::span<const std::uint8_t> means, Random& random) {
  const int top = static_cast<int>(random.below(static_cast<std::uint32_t>(shape.height))) - side / 2;
  const int left = static_cast<int>(random.below(static_cast<std::uint32_t>(shape.width))) - side / 2;
  for (int c = 0; c < shape.channels; ++c) {
    for (int y = std::max(0, top); y < std::min(shape.height, top + side); ++y) {
      for (int x = std::max(0, left); x < std::min(shape.width, left + side); ++x) {
        pixels[(c * shape.height + y) * shape.width + x] = means[c];
      }
    }
  }
}

namespace {

/// A number above 0 and below 1.
double between_0_and_1(Random& random) { return (random.next() + 0.5) / 4294967296.0; }

/// The logarithm of a number of the gamma distribution with this shape. For shapes below 1 the number itself may be too
/// small for a double.
double log_of_gamma(double shape, Random& random) {
  if (shape < 1.0) {
    const double rest = std::log(between_0_and_1(random)) / shape;
    return log_of_gamma(shape + 1.0, random) + rest;
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = random.normal();
    const double root = 1.0 + c * x;
    const double uniform = between_0_and_1(random);
    if (root <= 0.0) continue;
    const double v = root * root * root;
    if (std::log(uniform) < 0.5 * x * x + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

}  // namespace

double draw_share(double alpha, Random& random) {
  const double one = log_of_gamma(alpha, random);
  const double other = log_of_gamma(alpha, random);
  return 1.0 / (1.0 + std::exp(other - one));
}

void mix_pixels(std::span<std::uint8_t> pixels, std::span<const std::uint8_t> other, int share) {
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const int sum = share * pixels[i] + (kWholeShare - share) * other[i] + kWholeShare / 2;
    pixels[i] = static_cast<std::uint8_t>(sum / kWholeShare);
  }
}

}  // namespace convoy
