// Draws ten classes of glyphs made of strokes. Coordinates are multiples of 1/256 pixel and all arithmetic is on
// integers, so that every machine draws the same bytes.

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/random.hpp"
#include "data/dataset.hpp"

namespace convoy {
namespace {

constexpr int kExtent = 28;
constexpr int kOne = 256;  ///< units in a pixel
constexpr int kGlyphs = 10;
constexpr std::uint64_t kTrainingStream = std::uint64_t{3} << 32;
constexpr std::uint64_t kTestStream = std::uint64_t{4} << 32;

struct Point {
  int x;
  int y;
};
struct Stroke {
  Point a;
  Point b;
};

/// The strokes of each class, between points of a 9 x 9 grid from (0, 0) to (8, 8).
const std::array<std::vector<Stroke>, kGlyphs>& shapes() {
  static const std::array<std::vector<Stroke>, kGlyphs> all{{
      {{{0, 0}, {8, 0}}, {{8, 0}, {8, 8}}, {{8, 8}, {0, 8}}, {{0, 8}, {0, 0}}},  // square
      {{{4, 0}, {8, 8}}, {{8, 8}, {0, 8}}, {{0, 8}, {4, 0}}},                    // triangle
      {{{4, 0}, {8, 4}}, {{8, 4}, {4, 8}}, {{4, 8}, {0, 4}}, {{0, 4}, {4, 0}}},  // diamond
      {{{4, 0}, {4, 8}}, {{0, 4}, {8, 4}}},                                      // plus
      {{{0, 0}, {8, 8}}, {{8, 0}, {0, 8}}},                                      // cross
      {{{0, 0}, {8, 0}}, {{8, 0}, {0, 8}}, {{0, 8}, {8, 8}}},                    // Z
      {{{0, 0}, {0, 8}}, {{0, 0}, {8, 0}}, {{0, 4}, {6, 4}}},                    // F
      {{{0, 0}, {0, 8}}, {{0, 8}, {8, 8}}, {{8, 8}, {8, 0}}},                    // U
      {{{0, 0}, {4, 8}}, {{4, 8}, {8, 0}}, {{2, 4}, {6, 4}}},                    // A on its head
      {{{0, 0}, {0, 8}}, {{8, 0}, {8, 8}}, {{0, 4}, {8, 4}}},                    // H
  }};
  return all;
}

/// The squared distance of `p` from the stroke, in units of 1/256 pixel, squared.
long squared_distance(Point p, const Stroke& stroke) {
  const long dx = stroke.b.x - stroke.a.x;
  const long dy = stroke.b.y - stroke.a.y;
  const long px = p.x - stroke.a.x;
  const long py = p.y - stroke.a.y;
  const long length = std::max(1L, dx * dx + dy * dy);
  const long along = std::clamp(px * dx + py * dy, 0L, length);
  const long ex = px - dx * along / length;
  const long ey = py - dy * along / length;
  return ex * ex + ey * ey;
}

/// A random affine map from the grid to the image.
struct Pose {
  // The map is x' = xx * x + xy * y + x0 and y' = yx * x + yy * y + y0, in units of 1/256 pixel.
  int xx, xy, yx, yy, x0, y0;

  explicit Pose(Random& random) {
    const auto between = [&](int low, int high) {
      return low + static_cast<int>(random.below(static_cast<std::uint32_t>(high - low + 1)));
    };
    const int size = between(280, 520);  // the 8 grid steps span 9 to 16 pixels
    // The off-diagonal terms turn the glyph by up to about 20 degrees and slant it.
    const int turn = between(-90, 90);
    const int slant = between(-60, 60);
    xx = size * between(220, 290) / kOne;
    yy = size * between(220, 290) / kOne;
    xy = size * (turn + slant) / kOne;
    yx = -size * turn / kOne;
    x0 = between(11, 17) * kOne - 4 * (xx + xy);
    y0 = between(11, 17) * kOne - 4 * (yx + yy);
  }
  Point place(Point p) const { return {xx * p.x + xy * p.y + x0, yx * p.x + yy * p.y + y0}; }
};

/// The ink of a stroke at a pixel, 0 to 255. The stroke's edge is softened over one pixel.
int ink(Point pixel, const Stroke& stroke, int half_width) {
  const long squared = squared_distance(pixel, stroke);
  const long inner = half_width - kOne / 2;
  const long outer = half_width + kOne / 2;
  if (squared <= inner * std::abs(inner)) return 255;
  if (squared >= outer * outer) return 0;
  return static_cast<int>(255 * (outer * outer - squared) / (outer * outer - inner * std::abs(inner)));
}

void draw(int shape, Random& random, std::uint8_t* image) {
  const Pose pose(random);
  std::vector<Stroke> strokes;
  for (const Stroke& stroke : shapes()[shape]) {
    strokes.push_back({pose.place(stroke.a), pose.place(stroke.b)});
  }
  const std::size_t of_the_glyph = strokes.size();
  const auto somewhere = [&] { return static_cast<int>(random.below(kExtent * kOne)); };
  for (std::uint32_t i = random.below(3); i > 0; --i) {
    const Point a{somewhere(), somewhere()};
    const Point b{a.x + static_cast<int>(random.below(6 * kOne)) - 3 * kOne,
                  a.y + static_cast<int>(random.below(6 * kOne)) - 3 * kOne};
    strokes.push_back({a, b});
  }
  const int half_width = 180 + static_cast<int>(random.below(180));
  const int dark = static_cast<int>(random.below(60));
  const int bright = 150 + static_cast<int>(random.below(100));
  const bool inverted = random.below(2) == 1;
  for (int y = 0; y < kExtent; ++y) {
    for (int x = 0; x < kExtent; ++x) {
      int most = 0;
      for (std::size_t s = 0; s < strokes.size(); ++s) {
        const int amount = ink({x * kOne + kOne / 2, y * kOne + kOne / 2}, strokes[s], half_width);
        most = std::max(most, s < of_the_glyph ? amount : amount * 3 / 4);
      }
      const int noise = static_cast<int>(random.below(41)) - 20;
      const int grey = std::clamp(dark + (bright - dark) * most / 255 + noise, 0, 255);
      image[y * kExtent + x] = static_cast<std::uint8_t>(inverted ? 255 - grey : grey);
    }
  }
}

ImageSet draw_part(std::uint64_t seed, std::uint64_t stream, int count) {
  constexpr std::size_t kPixels = std::size_t{kExtent} * kExtent;
  ImageSet images{.shape = {1, kExtent, kExtent},
                  .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(count) * kPixels),
                  .labels = {}};
  for (int i = 0; i < count; ++i) {
    Random random(seed, stream + static_cast<std::uint64_t>(i));
    const auto shape = static_cast<std::uint8_t>(random.below(kGlyphs));
    images.labels.push_back(shape);
    draw(shape, random, images.pixels.data() + static_cast<std::size_t>(i) * kPixels);
  }
  return images;
}

}  // namespace

DataSet draw_glyphs(std::uint64_t seed, int training_images, int test_images) {
  return {.name = "glyphs",
          .classes = kGlyphs,
          .training = draw_part(seed, kTrainingStream, training_images),
          .test = draw_part(seed, kTestStream, test_images)};
}

}  // namespace convoy
