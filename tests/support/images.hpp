// Images for tests.
#pragma once

#include <algorithm>

#include "core/images.hpp"

namespace convoy {

/// Returns the normalised pixels of all images.
inline Tensor normalised(const Images& images) {
  Normaliser normaliser;
  normaliser.use(images.scales);
  Tensor values(images.shape());
  normaliser.normalise(images.pixels, {0, images.shape().n}, values);
  return values;
}

inline bool same_pixels(const Images& a, const Images& b) {
  return std::ranges::equal(a.pixels.span(), b.pixels.span());
}

/// Returns images of which every value is 1 when they are normalised.
inline Images images_of_ones(const Shape& shape) {
  return {Pixels(shape, 255), std::vector<ChannelScale>(static_cast<std::size_t>(shape.c))};
}

}  // namespace convoy
