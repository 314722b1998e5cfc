// The JSON header of a safetensors file. Whatever a file claims, reading its header takes time and memory in proportion
// to the header's length.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace convoy {

/// The most bytes that a file of tensors may have.
inline constexpr std::uint64_t kLargestTensorFile = std::uint64_t{16} << 30;

/// What the header says of a tensor. The values are the bytes `begin` to `end` behind the header.
struct TensorEntry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> dims;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< in the header's order
  std::map<std::string, std::string> metadata;
};

/// Parses a header. Throws Error naming `file`, and the tensor, unless each name comes once, each extent is from 0 to
/// kLargestTensorFile, and the product of a tensor's extents is as well.
SafetensorsHeader parse_header(std::string_view text, const std::string& file);
/// The text of a header; spaces at its end fill a multiple of 8 bytes, so that the values behind it are aligned.
std::string header_text(const SafetensorsHeader& header);

/// "FILE: tensor NAME", with the name shortened and made safe to print.
std::string place_of_tensor(const std::string& file, const std::string& name);

}  // namespace convoy
