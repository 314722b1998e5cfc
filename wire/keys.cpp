#include "wire/keys.hpp"

#include <fmt/ranges.h>
#include <zmq.h>

#include <array>
#include <charconv>
#include <cstdint>

#include "core/error.hpp"

namespace convoy::wire {
namespace {

constexpr std::size_t kBytes = 32;
constexpr std::size_t kText = 40;
using Z85 = std::array<char, kText + 1>;

std::string hex_of(const std::string& key) {
  std::array<std::uint8_t, kBytes> bytes{};
  invariant(key.size() == kText && zmq_z85_decode(bytes.data(), key.c_str()) != nullptr, "the key is in Z85");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

/// Converts 64 hexadecimal digits to Z85. Returns an empty text if a character is not a digit.
std::string from_hex(const std::string& hex) {
  std::array<std::uint8_t, kBytes> bytes{};
  for (std::size_t i = 0; i < kBytes; ++i) {
    const char* digits = hex.data() + 2 * i;
    if (std::from_chars(digits, digits + 2, bytes[i], 16).ptr != digits + 2) return "";
  }
  Z85 text{};
  zmq_z85_encode(text.data(), bytes.data(), kBytes);
  return text.data();
}

}  // namespace

KeyPair make_key_pair() {
  Z85 public_key{};
  Z85 secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) {
    fail(
        "libzmq on this machine was built without CURVE and cannot encrypt; install one with CURVE, or give "
        "--insecure");
  }
  return {public_key.data(), secret_key.data()};
}

bool is_key(const std::string& text) {
  std::array<std::uint8_t, kBytes> bytes{};
  return text.size() == kText && zmq_z85_decode(bytes.data(), text.c_str()) != nullptr;
}

std::string to_text(const JoinKey& key) { return hex_of(key.master) + hex_of(key.member.secret_key); }

JoinKey join_key_from(const std::string& text) {
  constexpr std::size_t kDigits = 4 * kBytes;
  const std::string master = text.size() == kDigits ? from_hex(text.substr(0, kDigits / 2)) : "";
  const std::string secret = text.size() == kDigits ? from_hex(text.substr(kDigits / 2)) : "";
  if (master.empty() || secret.empty()) {
    fail("a text of {} characters is not a key; paste the {} hexadecimal digits that the master prints", text.size(),
         kDigits);
  }
  Z85 public_key{};
  if (zmq_curve_public(public_key.data(), secret.c_str()) != 0) {
    fail(
        "libzmq on this machine was built without CURVE and cannot encrypt; install one with CURVE, or give "
        "--insecure");
  }
  return {master, {public_key.data(), secret}};
}

}  // namespace convoy::wire
