#include "master/jobs/line_book.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"

namespace convoy {
namespace {

constexpr std::size_t kLargestBook = std::size_t{1} << 28;

std::string last_error() { return std::generic_category().message(errno); }

}  // namespace

LineBook::LineBook(std::string file, const Words& words, const std::function<void(const std::string& line)>& take)
    : file_(std::move(file)) {
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("{}: cannot be opened: {}; check that the folder is writable", file_, last_error());
  try {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      fail("{}: another master works on this {}; wait for its end, or stop it", file_, words.whole);
    }
    read(words, take);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

LineBook::~LineBook() { ::close(descriptor_); }

void LineBook::read(const Words& words, const std::function<void(const std::string& line)>& take) {
  const std::string text = read_text(file_, kLargestBook);
  std::size_t from = 0;
  for (int number = 1;; ++number) {
    const std::size_t end = text.find('\n', from);
    if (end == std::string::npos) break;
    try {
      take(text.substr(from, end - from));
    } catch (const std::exception& error) {
      fail("{}:{}: the line is not a result of this {}: {}; restore the file, or remove this line and all after it, {}",
           file_, number, words.whole, printable(error.what(), 300), words.after_loss);
    }
    from = end + 1;
  }
  if (from < text.size() && ::ftruncate(descriptor_, static_cast<off_t>(from)) != 0) {
    fail("{}: its incomplete last line cannot be cut off: {}", file_, last_error());
  }
}

void LineBook::add(const std::string& line, const std::string& what) {
  const std::string whole = line + "\n";
  // A write of a line to a file is whole unless the disk is full.
  const ssize_t written = ::write(descriptor_, whole.data(), whole.size());
  if (written != static_cast<ssize_t>(whole.size()) || ::fsync(descriptor_) != 0) {
    fail("{}: {} cannot be written: {}; make room on the disk, and go on with --resume", file_, what,
         written < 0 ? last_error() : "the disk is full");
  }
}

}  // namespace convoy
