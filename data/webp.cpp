#include "data/webp.hpp"

#include <webp/decode.h>

namespace convoy {
namespace {

/// Returns pixels of (red, green, blue, alpha) on white, in colour or in grey.
Picture on_white(const std::vector<std::uint8_t>& pixels, const FeatureShape& shape) {
  Picture picture{shape, {}};
  picture.pixels.reserve(static_cast<std::size_t>(shape.size()));
  for (std::size_t at = 0; at < pixels.size(); at += 4) {
    const int alpha = pixels[at + 3];
    const auto colour = [&](std::size_t i) {
      return static_cast<std::uint8_t>((pixels[at + i] * alpha + 255 * (255 - alpha) + 127) / 255);
    };
    if (shape.channels == 1) {
      picture.pixels.push_back(grey_of(colour(0), colour(1), colour(2)));
    } else {
      for (std::size_t i = 0; i < 3; ++i) picture.pixels.push_back(colour(i));
    }
  }
  return picture;
}

}  // namespace

bool reads_webp() { return true; }

Picture decode_webp(std::span<const std::uint8_t> bytes, const FeatureShape& least) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(bytes.data(), bytes.size(), &features) != VP8_STATUS_OK) fail("the image is not a valid WebP");
  if (features.has_animation != 0) fail("the WebP is animated; expected a single picture");
  check_picture_size(features.width, features.height);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(features.width) *
                                   static_cast<std::size_t>(features.height) * 4);
  if (WebPDecodeRGBAInto(bytes.data(), bytes.size(), pixels.data(), pixels.size(), 4 * features.width) == nullptr) {
    fail("the WebP is damaged");
  }
  return on_white(pixels, {least.channels, features.height, features.width});
}

}  // namespace convoy
