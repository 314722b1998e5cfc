// Files for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

using Bytes = std::vector<std::uint8_t>;

Bytes read_file(const std::string& file);
/// Returns the whole file as text; an empty text if there is none.
std::string text_of(const std::string& file);
/// Returns the fields of each line of a CSV text. A field with a comma is between quotation marks, which are left out.
std::vector<std::vector<std::string>> fields_of(const std::string& csv);
void write_file(const std::string& file, const Bytes& bytes);
/// Writes a file compressed by gzip.
void write_gzip(const std::string& file, const Bytes& bytes);

}  // namespace convoy
