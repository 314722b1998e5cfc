#include "data/exif.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace convoy {
namespace {

constexpr int kUpright = 1;
constexpr std::uint16_t kOrientationTag = 0x0112;

/// Reads numbers of a TIFF structure. A place behind its end gives nothing.
class Tiff {
 public:
  explicit Tiff(std::span<const std::uint8_t> bytes) : bytes_(bytes) {
    little_ = bytes.size() > 1 && bytes[0] == 'I' && bytes[1] == 'I';
  }
  std::optional<std::uint32_t> number(std::size_t at, std::size_t width) const {
    if (at > bytes_.size() || bytes_.size() - at < width) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < width; ++i) value = value << 8U | bytes_[at + (little_ ? width - 1 - i : i)];
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool little_;
};

int orientation_in(std::span<const std::uint8_t> exif) {
  const Tiff tiff(exif);
  const auto directory = tiff.number(4, 4);
  const auto entries = directory ? tiff.number(*directory, 2) : std::nullopt;
  for (std::size_t i = 0; entries && i < *entries; ++i) {
    const std::size_t entry = *directory + 2 + 12 * i;
    if (tiff.number(entry, 2) != kOrientationTag) continue;
    const auto value = tiff.number(entry + 8, 2);
    return value && *value >= 1 && *value <= 8 ? static_cast<int>(*value) : kUpright;
  }
  return kUpright;
}

}  // namespace

int orientation_of(std::span<const std::uint8_t> jpeg) {
  constexpr std::string_view kMark{"Exif\0\0", 6};
  constexpr std::uint8_t kExifSegment = 0xE1;
  constexpr std::uint8_t kStartOfScan = 0xDA;
  // After the first two bytes come segments: 0xFF, a marker, and a length that counts itself.
  std::size_t at = 2;
  while (at + 4 <= jpeg.size() && jpeg[at] == 0xFF && jpeg[at + 1] != kStartOfScan) {
    const std::size_t length = jpeg[at + 2] * std::size_t{256} + jpeg[at + 3];
    if (length < 2 || length > jpeg.size() - at - 2) break;
    const auto segment = jpeg.subspan(at + 4, length - 2);
    const bool exif = jpeg[at + 1] == kExifSegment && segment.size() > kMark.size() &&
                      std::equal(kMark.begin(), kMark.end(), segment.begin(),
                                 [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
    if (exif) return orientation_in(segment.subspan(kMark.size()));
    at += 2 + length;
  }
  return kUpright;
}

Picture upright(Picture picture, int orientation) {
  if (orientation <= kUpright || orientation > 8) return picture;
  const FeatureShape& from = picture.shape;
  const bool turned = lies_on_its_side(orientation);
  Picture made{{from.channels, turned ? from.width : from.height, turned ? from.height : from.width}, {}};
  made.pixels.resize(picture.pixels.size());
  // Where the first row and the first column of the stored picture are in the upright one.
  const bool bottom = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  const bool right = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const auto channels = static_cast<std::size_t>(from.channels);
  for (int y = 0; y < made.shape.height; ++y) {
    for (int x = 0; x < made.shape.width; ++x) {
      const int across = right ? made.shape.width - 1 - x : x;
      const int down = bottom ? made.shape.height - 1 - y : y;
      const std::size_t source =
          static_cast<std::size_t>(turned ? across : down) * static_cast<std::size_t>(from.width) +
          static_cast<std::size_t>(turned ? down : across);
      const std::size_t place =
          static_cast<std::size_t>(y) * static_cast<std::size_t>(made.shape.width) + static_cast<std::size_t>(x);
      std::copy_n(picture.pixels.begin() + static_cast<std::ptrdiff_t>(source * channels), channels,
                  made.pixels.begin() + static_cast<std::ptrdiff_t>(place * channels));
    }
  }
  return made;
}

}  // namespace convoy
