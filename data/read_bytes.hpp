// Whole files in memory, plain or gzipped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

/// At most `most` bytes once unpacked. Throws Error naming the file: missing, unreadable, larger, or damaged.
std::vector<std::uint8_t> read_bytes(const std::string& file, std::size_t most);

}  // namespace convoy
