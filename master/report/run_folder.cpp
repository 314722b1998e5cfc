#include "master/report/run_folder.hpp"

#include <filesystem>
#include <utility>

#include "core/error.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("{}: the run folder cannot be made: {}; choose another folder with --out", folder, error.message());
}

}  // namespace

std::string make_run_folder(const std::string& out, const std::string& net) {
  if (!out.empty()) {
    // Without events the run never began, for example because its port was taken.
    std::error_code absent;
    const std::uintmax_t events = fs::file_size(out + "/events.jsonl", absent);
    if (!absent && events > 0) {
      fail("{} already holds a run; give --resume to go on with it, or choose another folder with --out", out);
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

UnbegunRun::~UnbegunRun() {
  if (folder_.empty()) return;
  std::error_code ignored;
  for (const char* file : {"config.yaml", "events.jsonl", "results.csv", "curves.gnuplot", kTeacherOutputs}) {
    fs::remove(fs::path(folder_) / file, ignored);
  }
  if (made_ && fs::is_empty(folder_, ignored)) fs::remove(folder_, ignored);
}

UnbegunRun& UnbegunRun::operator=(UnbegunRun&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(made_, other.made_);
  return *this;
}

}  // namespace convoy
