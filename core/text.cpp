#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace convoy {
namespace {

/// The bytes of the UTF-8 character at the front of a text, and its code point. 0 bytes where there is none.
struct Character {
  std::size_t bytes = 0;
  std::uint32_t code = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return {};
    code = code << 6U | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t kFirstOf[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kFirstOf[bytes] || code > 0x10ffff || surrogate) return {};
  return {bytes, code};
}

/// Characters that move the cursor, change the direction of a line or take no place.
bool is_control(std::uint32_t code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return true;
  return (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2060 && code <= 0x206f) || code == 0xfeff;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string made;
  while (!text.empty()) {
    const Character next = first_character(text);
    const std::size_t bytes = next.bytes == 0 ? 1 : next.bytes;
    std::string piece(text.substr(0, bytes));
    if (next.bytes == 0 || is_control(next.code)) {
      piece.clear();
      for (const char each : text.substr(0, bytes)) piece += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(each));
    }
    if (made.size() + piece.size() > most) return made + "...";
    made += piece;
    text.remove_prefix(bytes);
  }
  return made;
}

std::size_t typing_errors(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::optional<std::string> fault_of_name(std::string_view name) {
  if (name.empty()) return "the name is empty";
  if (name.size() > kLongestName) {
    return fmt::format("the name '{}' has {} bytes, and {} are the most", printable(name, kLongestName), name.size(),
                       kLongestName);
  }
  const std::string shown = printable(name);
  if (shown != name) return fmt::format("the name '{}' has characters that cannot be printed", shown);
  return std::nullopt;
}

}  // namespace convoy
