// One photograph: decoding, scaling, cutting.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "nets/graph/net.hpp"

namespace convoy {

/// Bytes, (row, column, channel).
struct Picture {
  FeatureShape shape;
  std::vector<std::uint8_t> pixels;
};

/// Which part of a photograph a net sees.
struct View {
  double down = 0.5;   ///< of the room that cutting leaves: 0 cuts off below, 1 above
  double right = 0.5;  ///< 0 cuts off at the right, 1 at the left
  bool flip = false;   ///< left to right
};

/// By its name's ending.
bool is_image_file(const std::string& file);

/// A JPEG or PNG in grey (1 channel) or colours (3), whatever it holds; transparency is on white. A JPEG that is larger than
/// `least` in both directions may come in a fraction of its size, no smaller than that. Throws Error saying what is wrong
/// with it, without naming it.
Picture decode_image(std::span<const std::uint8_t> bytes, const FeatureShape& least);
/// The same of a file. Throws Error naming it.
Picture read_image(const std::string& file, const FeatureShape& least);

/// work(0) .. work(count - 1), on all cores. Throws an Error that one of them threw.
void on_all_cores(int count, const std::function<void(int)>& work);

/// Scales the picture so that it covers the size of `shape` in both directions, with an eighth to spare, by a triangle as
/// wide as the scale (as PIL's "bilinear" does), and cuts the view out: bytes (channel, row, column). A picture of just
/// that size is taken as it is.
void cut_view(const Picture& picture, const FeatureShape& shape, const View& view, std::span<std::uint8_t> to);

}  // namespace convoy
