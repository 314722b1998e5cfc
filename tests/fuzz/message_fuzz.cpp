// Decodes the bytes of a peer. A valid message must be equal after encoding and decoding it again.

#include <span>

#include "tests/fuzz/fuzz.hpp"
#include "wire/codec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy;
  return try_to([&] {
    const wire::Message message = wire::decode(std::as_bytes(std::span(data, size)));
    const std::vector<std::byte> bytes = wire::encode(message);
    invariant(wire::encode(wire::decode(bytes)) == bytes, "a message that comes through");
  });
}
