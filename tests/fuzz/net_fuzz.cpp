// Reads net files.

#include <string>

#include "nets/graph/net.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy;
  return try_to([&] {
    const Net net = parse_net(std::string(reinterpret_cast<const char*>(data), size), "fuzz.yaml");
    const std::string text = to_yaml(net);
    invariant(to_yaml(parse_net(text, "again.yaml")) == text, "a net that comes through");
  });
}
