#include "data/read_bytes.hpp"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/error.hpp"

namespace convoy {

std::vector<std::uint8_t> read_bytes(const std::string& file, std::size_t most) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) fail("{}: the file is missing", file);
  const auto close = [](gzFile handle) { gzclose(handle); };
  // zlib passes files that are not gzipped through unchanged.
  const std::unique_ptr<gzFile_s, decltype(close)> handle(gzopen(file.c_str(), "rb"), close);
  if (!handle) fail("{}: the file cannot be read: {}", file, std::strerror(errno));
  std::vector<std::uint8_t> bytes;
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  while (true) {
    const std::size_t before = bytes.size();
    if (before > most) fail("{}: the file has more than {} bytes, the limit for files of its kind", file, most);
    bytes.resize(before + kBlock);
    const int got = gzread(handle.get(), bytes.data() + before, kBlock);
    bytes.resize(before + static_cast<std::size_t>(std::max(got, 0)));
    int code = Z_OK;
    const char* what = gzerror(handle.get(), &code);
    if (got < 0 || code == Z_BUF_ERROR) fail("{}: the file is damaged or cut off ({}); fetch it again", file, what);
    if (got == 0) return bytes;
  }
}

}  // namespace convoy
