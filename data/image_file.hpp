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
};

/// Whether the name ends in .jpg, .jpeg or .png, in either case.
bool is_image_file(const std::string& file);

/// Decodes a JPEG or PNG to least.channels channels: 1 for grey or 3 for colour. Transparent pixels are drawn on white.
/// A JPEG may be decoded at a reduced scale that still exceeds `least` in both directions. Throws Error with the fault;
/// the error does not name the image.
Picture decode_image(std::span<const std::uint8_t> bytes, const FeatureShape& least);
/// Decodes a file. Throws Error naming the file.
Picture read_image(const std::string& file, const FeatureShape& least);

/// Runs work(0) to work(count - 1) on all cores. Rethrows an Error that one of them threw.
void on_all_cores(int count, const std::function<void(int)>& work);

/// Scales the picture so that it covers 8/7 of the size of `shape` in both directions, and copies the view to `to` as
/// (channel, row, column). The filter is a triangle as wide as the scale, as in PIL's "bilinear". A picture of exactly
/// this size is copied unscaled.
void cut_view(const Picture& picture, const FeatureShape& shape, const View& view, std::span<std::uint8_t> to);

}  // namespace convoy
