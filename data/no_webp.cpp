#include "data/webp.hpp"

namespace convoy {

bool reads_webp() { return false; }

Picture decode_webp(std::span<const std::uint8_t>, const FeatureShape&) {
  fail("this build decodes no WebP; convert the picture to JPEG or PNG, or install libwebp-dev and build Convoy again");
}

}  // namespace convoy
