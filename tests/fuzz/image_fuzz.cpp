// Decodes, scales and crops JPEG, PNG and WebP files.

#include <span>
#include <vector>

#include "data/image_file.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy;
  const FeatureShape shape{3, 8, 8};
  std::vector<std::uint8_t> view(static_cast<std::size_t>(shape.size()));
  return try_to([&] { cut_view(decode_image(std::span(data, size), shape), shape, View{}, view); });
}
