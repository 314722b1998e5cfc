#include "tests/energy/fake_machine.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy::energy {

namespace fs = std::filesystem;

namespace {

std::string with_new_lines(std::string text) {
  for (auto place = text.find("\\n"); place != std::string::npos; place = text.find("\\n"))
    text.replace(place, 2, "\n");
  return text;
}

}  // namespace

void FakeTime::sleep_until(TimePoint time) { now_ = std::max(now_, time); }

void FakeTime::pass(double seconds) { now_ += Clock::seconds(seconds); }

FakeMachine::FakeMachine(const std::string& tree) : FakeMachine() {
  const std::string file = source_folder() + "/tests/energy/trees/" + tree + ".tree";
  std::ifstream lines(file);
  if (!lines) fail("{}: cannot be read", file);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    const auto equal = line.find(" = ");
    const auto arrow = line.find(" -> ");
    if (equal == std::string::npos) {
      const fs::path link = folder_->path() + line.substr(0, arrow);
      fs::create_directories(link.parent_path());
      fs::create_symlink(line.substr(arrow + 4), link);
      continue;
    }
    const std::string text = with_new_lines(line.substr(equal + 3));
    if (line.starts_with("$ ")) {
      commands[line.substr(2, equal - 2)] = text;
    } else if (line.starts_with("@ ")) {
      pages[line.substr(2, equal - 2)] = text;
    } else {
      write(line.substr(0, equal), text);
    }
  }
}

void FakeMachine::write(const std::string& path, const std::string& text) const {
  if (in_memory) {
    texts_[path] = text;
    return;
  }
  const fs::path file = folder_->path() + path;
  fs::create_directories(file.parent_path());
  // As in sysfs, a reader in another thread sees the old text or the new one.
  const std::string part = file.string() + ".part";
  std::ofstream(part) << text << '\n';
  fs::rename(part, file);
}

void FakeMachine::rewrite(const std::string& path, const std::string& text) const {
  const int file = ::open((folder_->path() + path).c_str(), O_WRONLY | O_CLOEXEC);
  invariant(file >= 0, "a file of a faked machine that can be written");
  const std::string padded = fmt::format("{:<24}\n", text);
  const ssize_t written = ::pwrite(file, padded.data(), padded.size(), 0);
  ::close(file);
  invariant(written == static_cast<ssize_t>(padded.size()), "a whole text");
}

void FakeMachine::remove(const std::string& path) const { fs::remove(folder_->path() + path); }

std::string FakeMachine::read(const std::string& path) const {
  if (const auto failure = failures.find(path); failure != failures.end()) throw Unreadable(path, failure->second);
  const auto text = texts_.find(path);
  return text == texts_.end() ? Machine::read(path) : text->second;
}

std::string FakeMachine::run(const std::vector<std::string>& command) const {
  const auto output = commands.find(fmt::format("{}", fmt::join(command, " ")));
  if (output == commands.end()) fail("the command {} is not there", command.front());
  return output->second;
}

std::string FakeMachine::get(const std::string& host, const std::string& target) const {
  const auto page = pages.find(host + target);
  if (page == pages.end()) fail("{} does not answer in time", host);
  return page->second;
}

}  // namespace convoy::energy
