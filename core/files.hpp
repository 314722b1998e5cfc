// Whole files. A reader never sees a half-written file, and every read has a bound on the file's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

/// Writes `text` to `file` whole or not at all. Throws Error naming the file.
void write_text(const std::string& file, const std::string& text);
/// Returns the text of `file`. Throws Error naming the file when it is no regular file, cannot be read, or has more
/// than `most` bytes.
std::string read_text(const std::string& file, std::size_t most = std::size_t{16} << 20);
/// Returns the bytes of `file`. Throws Error naming the file when it is missing, cannot be read, or is larger than
/// `most` bytes.
std::vector<std::uint8_t> read_file(const std::string& file, std::size_t most);

/// Returns whether users other than the owner may read a file or write to it, which must not be so for a file with
/// keys.
bool others_can_read(const std::string& file);

}  // namespace convoy
