// Imports ONNX models, and reads ONNX files of one tensor.

#include <string>

#include "nets/onnx/onnx.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  return try_to([&] { parse_onnx(bytes, "fuzz.onnx", "fuzz"); });
}
