// Reads whole files, plain or gzipped, into memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

/// Returns the unpacked bytes of a file. Throws Error naming the file if it is missing, unreadable or damaged, or has
/// more than `most` bytes after unpacking.
std::vector<std::uint8_t> read_bytes(const std::string& file, std::size_t most);

}  // namespace convoy
