// The orientation of a photograph, as cameras note it in a JPEG's Exif data.
#pragma once

#include <cstdint>
#include <span>

#include "data/image_file.hpp"

namespace convoy {

/// Returns the orientation in a JPEG's Exif data, 1 to 8 (Exif 2.3, tag 0x0112); 1, upright, where there is none or it
/// is damaged.
int orientation_of(std::span<const std::uint8_t> jpeg);

/// Returns whether a picture of this orientation lies on its side, so that its rows become columns.
inline bool lies_on_its_side(int orientation) { return orientation >= 5; }

/// Returns the picture upright.
Picture upright(Picture picture, int orientation);

}  // namespace convoy
