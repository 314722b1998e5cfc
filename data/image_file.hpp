// Decoding, scaling and cropping of one photograph.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "nets/graph/net.hpp"

namespace convoy {

/// A decoded image.
struct Picture {
  FeatureShape shape;
  std::vector<std::uint8_t> pixels;  ///< (row, column, channel)
};

/// The part of a scaled photograph that is cut out.
struct View {
  double down = 0.5;   ///< vertical position: 0 is the top of the photograph, 1 the bottom
  double right = 0.5;  ///< horizontal position: 0 is the left edge, 1 the right edge
  bool flip = false;   ///< mirror left to right
  int resize = 0;      ///< the shorter side of the scaled photograph (Net::resize)
};

/// A part of a picture, in pixels of the picture.
struct Region {
  double top = 0.0;
  double left = 0.0;
  double height = 0.0;
  double width = 0.0;
};

/// A photograph is scaled to this many times the size that is cut out, unless Net::resize says otherwise.
inline constexpr double kToSpare = 8.0 / 7.0;

/// Returns the usual weighted sum of the colours (ITU-R BT.601).
inline std::uint8_t grey_of(int red, int green, int blue) {
  return static_cast<std::uint8_t>((299 * red + 587 * green + 114 * blue + 500) / 1000);
}

/// Throws Error unless a picture has at least one pixel and at most 2^27.
void check_picture_size(long width, long height);

/// Whether the name ends in .jpg, .jpeg or .png, or in .webp if this build decodes it, in either case.
bool is_image_file(const std::string& file);

/// Returns the format that a name tells, such as "webp", of images that are not read; empty for other names.
std::string other_image_format(const std::string& file);

/// Decodes a JPEG, PNG or WebP to least.channels channels: 1 for grey or 3 for colour. Grey pictures, palettes, 16 bits
/// and the inks of CMYK are converted. Transparent pixels are drawn on white. A JPEG is turned upright as its Exif data
/// say, and may be decoded at a reduced scale that still exceeds `least` in both directions. Throws Error with the
/// fault; the error does not name the image.
Picture decode_image(std::span<const std::uint8_t> bytes, const FeatureShape& least);
/// Decodes a file. Throws Error naming the file.
Picture read_image(const std::string& file, const FeatureShape& least);

/// Runs work(0) to work(count - 1) on all cores. Rethrows an Error that one of them threw.
void on_all_cores(int count, const std::function<void(int)>& work);

/// Returns what read_image() is to decode at least for a view of `shape`: with Net::resize the whole picture, so that
/// nothing but the one filter scales it.
FeatureShape least_for(const FeatureShape& shape, int resize);

/// Scales a part of the picture to `shape`, mirrored where `flip` is set, and writes it to `to` as (channel, row,
/// column). The filter is a triangle as wide as the scale, as in PIL's "bilinear" and torchvision's with antialias.
void cut_region(const Picture& picture, const FeatureShape& shape, const Region& region, bool flip,
                std::span<std::uint8_t> to);

/// Scales the picture so that it covers 8/7 of the size of `shape` in both directions, or so that its shorter side has
/// view.resize pixels, and copies the view to `to` as (channel, row, column). A picture of exactly this size is copied
/// unscaled unless there is a view.resize. The middle of a picture that is resized is what torchvision's Resize and
/// CenterCrop give.
void cut_view(const Picture& picture, const FeatureShape& shape, const View& view, std::span<std::uint8_t> to);

}  // namespace convoy
