// Reads safetensors files.

#include <vector>

#include "model/safetensors.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy;
  return try_to([&] { parse_safetensors(std::vector<std::uint8_t>(data, data + size), "fuzz.safetensors"); });
}
