// Texts from outside the program: made safe to print and to log, and compared with what they should have been.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace convoy {

/// The most bytes that the name of a slave may have.
inline constexpr std::size_t kLongestName = 64;

/// The text with every control character, escape sequence, direction mark and byte that is not valid UTF-8 written as
/// \xNN. A text of more than `most` bytes is cut, and ends in "...".
std::string printable(std::string_view text, std::size_t most = 4096);

/// The optimal string alignment distance of two words: how many letters must be left out, added, replaced or swapped
/// with their neighbour to make one of the other. To be called with short words.
std::size_t typing_errors(std::string_view a, std::string_view b);

/// Why a text cannot be the name of a slave: it is empty, longer than kLongestName, or not printable. Nothing if it
/// can.
std::optional<std::string> fault_of_name(std::string_view name);

}  // namespace convoy
