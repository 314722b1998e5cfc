#include "core/files.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"

namespace convoy {

namespace fs = std::filesystem;

void write_text(const std::string& file, const std::string& text) {
  const std::string temporary = file + ".part";
  std::error_code error;
  {
    errno = 0;
    std::ofstream stream(temporary, std::ios::binary);
    const bool opened = stream.is_open();
    stream << text << std::flush;
    if (!stream) {
      const std::string why = errno == 0 ? "" : fmt::format(": {}", std::strerror(errno));
      if (opened) fs::remove(temporary, error);
      const fs::path folder = fs::path(file).parent_path();
      if (!folder.empty() && !fs::exists(folder, error)) {
        fail("{}: cannot be written: there is no folder {}; make it first", file, folder.string());
      }
      fail("{}: cannot be written{}; check that the folder is writable and the disk is not full", file, why);
    }
  }
  fs::rename(temporary, file, error);
  if (error) fail("{}: cannot be written: {}", file, error.message());
}

namespace {

/// Reads a file into `bytes`, which may have at most `most`. The size is checked before memory is taken. What is no
/// regular file might have no end, or keep a reader waiting for ever.
template <class Bytes>
Bytes read_whole(const std::string& file, std::size_t most) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) fail("{}: the file is missing", file);
  if (!fs::is_regular_file(status)) {
    fail("{}: it is {}; expected a file", file, fs::is_directory(status) ? "a folder" : "a device or a pipe");
  }
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) fail("{}: cannot be read: {}", file, error.message());
  if (size > most) {
    fail("{}: the file has {} bytes, and a file of this kind may have at most {}", file, size, most);
  }
  Bytes bytes(static_cast<std::size_t>(size), 0);
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream) fail("{}: cannot be read; check that you may read it", file);
  return bytes;
}

}  // namespace

std::string read_text(const std::string& file, std::size_t most) { return read_whole<std::string>(file, most); }

std::vector<std::uint8_t> read_file(const std::string& file, std::size_t most) {
  return read_whole<std::vector<std::uint8_t>>(file, most);
}

bool others_can_read(const std::string& file) {
  std::error_code missing;
  const fs::file_status status = fs::status(file, missing);
  return fs::exists(status) &&
         (status.permissions() & (fs::perms::group_all | fs::perms::others_all)) != fs::perms::none;
}

}  // namespace convoy
