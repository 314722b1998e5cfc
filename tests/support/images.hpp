// Images for tests.
#pragma once

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

/// Returns images of which every value is 1 when they are normalised.
inline Images images_of_ones(const Shape& shape) {
  return {Pixels(shape, 255), std::vector<ChannelScale>(static_cast<std::size_t>(shape.c))};
}

}  // namespace convoy
