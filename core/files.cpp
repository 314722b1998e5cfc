#include "core/files.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.hpp"

namespace convoy {

namespace fs = std::filesystem;

void write_text(const std::string& file, const std::string& text) {
  const std::string temporary = file + ".part";
  {
    std::ofstream stream(temporary, std::ios::binary);
    stream << text << std::flush;
    if (!stream) fail("{}: cannot be written; check that the folder is writable and the disk is not full", temporary);
  }
  std::error_code error;
  fs::rename(temporary, file, error);
  if (error) fail("{}: cannot be written: {}", file, error.message());
}

std::string read_text(const std::string& file) {
  constexpr std::uintmax_t kMost = std::uintmax_t{16} << 20;
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) fail("{}: cannot be read: {}", file, error.message());
  if (size > kMost) fail("{}: the file has {} bytes, and at most {} can be read", file, size, kMost);
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) fail("{}: cannot be read", file);
  return text.str();
}

std::vector<std::uint8_t> read_file(const std::string& file, std::size_t most) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) fail("{}: the file is missing", file);
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) fail("{}: cannot be read: {}", file, error.message());
  if (size > most) fail("{}: the file is larger than {} bytes, the most that a file of this kind may have", file, most);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream) fail("{}: cannot be read", file);
  return bytes;
}

}  // namespace convoy
