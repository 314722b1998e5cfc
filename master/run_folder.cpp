#include "master/run_folder.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace convoy {
namespace {

namespace fs = std::filesystem;

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("{}: the run folder cannot be made: {}; choose another with --out", folder, error.message());
}

}  // namespace

std::string make_run_folder(const std::string& out, const std::string& net) {
  if (!out.empty()) {
    // Where no event was written the run never began: a port that was taken, say.
    std::error_code absent;
    const std::uintmax_t events = fs::file_size(out + "/events.jsonl", absent);
    if (!absent && events > 0) {
      fail("{} already holds a run; go on with it by --resume, or choose another folder with --out", out);
    }
    make_folder(out);
    return out;
  }
  for (int number = 1;; ++number) {
    const std::string folder = fmt::format("runs/{}-{}", net, number);
    if (fs::exists(folder)) continue;
    make_folder(folder);
    return folder;
  }
}

void write_text(const std::string& file, const std::string& text) {
  const std::string temporary = file + ".part";
  {
    std::ofstream stream(temporary, std::ios::binary);
    stream << text << std::flush;
    if (!stream) fail("{}: cannot be written; is the folder writable and the disk not full?", temporary);
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
  if (size > kMost) fail("{}: {} bytes are too many for such a file", file, size);
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) fail("{}: cannot be read", file);
  return text.str();
}

}  // namespace convoy
