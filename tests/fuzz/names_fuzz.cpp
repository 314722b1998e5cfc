// Reads maps from layers to modules.

#include <string>

#include "nets/file/module_names.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

const convoy::Net& net() {
  static const convoy::Net read = convoy::parse_net(
      "name: n\ninput: {channels: 1, height: 4, width: 4}\nlayers:\n  - {name: conv1, type: conv, filters: 2, kernel: "
      "3}\n"
      "  - {name: bn1, type: batch_norm}\n  - {name: dense1, type: dense, units: 2}\n"
      "  - {name: loss, type: softmax_cross_entropy}\n",
      "net.yaml");
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy;
  const std::string text(reinterpret_cast<const char*>(data), size);
  return try_to([&] { parse_module_names(text, "fuzz.yaml", net()); });
}
