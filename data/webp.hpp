// Decoding of WebP pictures, where Convoy is built with libwebp.
#pragma once

#include "data/image_file.hpp"

namespace convoy {

/// Whether this build decodes WebP.
bool reads_webp();

/// Decodes a WebP to least.channels channels, with transparent pixels drawn on white. Throws Error with the fault if
/// the picture is damaged or animated, and, naming the package to install, if this build decodes no WebP.
Picture decode_webp(std::span<const std::uint8_t> bytes, const FeatureShape& least);

}  // namespace convoy
