#include "energy/machine.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "core/text.hpp"

namespace convoy::energy {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestText = 65536;
constexpr std::size_t kLargestPart = std::size_t{1} << 20;

/// Returns at most `most` bytes of a file from byte `begin` on. Errors name it `path`.
std::string read_part(const fs::path& file, const std::string& path, std::size_t begin, std::size_t most) {
  // A pipe in the place of a file would keep a reader waiting.
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) throw Unreadable(path, errno);
  std::string text;
  std::array<char, 4096> part{};
  ssize_t got = 0;
  do {
    const std::size_t room = std::min(part.size(), most - text.size());
    got = ::pread(descriptor, part.data(), room, static_cast<off_t>(begin + text.size()));
    if (got > 0) text.append(part.data(), static_cast<std::size_t>(got));
  } while (text.size() < most && (got > 0 || (got < 0 && errno == EINTR)));
  const int code = got < 0 ? errno : 0;
  ::close(descriptor);
  if (code != 0) throw Unreadable(path, code);
  return text;
}

/// Orders "hwmon10" after "hwmon9".
bool by_numbers(const std::string& a, const std::string& b) {
  const auto split = [](const std::string& name) {
    const auto digits = name.find_last_not_of("0123456789") + 1;
    const std::string number = name.substr(digits);
    return std::tuple(name.substr(0, digits), number.size(), number);
  };
  return split(a) < split(b);
}

}  // namespace

Unreadable::Unreadable(const std::string& path, int code)
    : Error(fmt::format("{}: {}", path, std::strerror(code))), code_(code) {}

bool Unreadable::denied() const { return code_ == EACCES || code_ == EPERM; }
bool Unreadable::missing() const { return code_ == ENOENT || code_ == ENOTDIR || code_ == ENODEV; }

std::string Machine::read(const std::string& path) const {
  std::string text = read_part(root_ / fs::path(path).relative_path(), path, 0, kLargestText);
  text.resize(text.find_last_not_of(std::string_view(" \t\r\n\0", 5)) + 1);
  return text;
}

std::string Machine::tail(const std::string& path, std::size_t begin) const {
  const fs::path file = fs::path(path).is_absolute() ? root_ / fs::path(path).relative_path() : fs::path(path);
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) throw Unreadable(path, error.value());
  if (size < begin) fail("{}: the file has become shorter", path);
  return read_part(file, path, begin, kLargestPart);
}

std::vector<std::string> Machine::names(const std::string& folder) const {
  std::error_code error;
  std::vector<std::string> found;
  auto entry = fs::directory_iterator(root_ / fs::path(folder).relative_path(), error);
  if (error) throw Unreadable(folder, error.value());
  for (; entry != fs::directory_iterator(); entry.increment(error)) {
    found.push_back(entry->path().filename().string());
    if (error) break;
  }
  std::ranges::sort(found, by_numbers);
  return found;
}

std::string Machine::target(const std::string& link) const {
  std::error_code error;
  const fs::path path = root_ / fs::path(link).relative_path();
  if (!fs::is_symlink(path, error)) return "";
  const fs::path found = fs::read_symlink(path, error);
  return error ? "" : found.filename().string();
}

std::string Machine::run(const std::vector<std::string>& command) const { return output_of(command, 3); }

std::string Machine::get(const std::string& host, const std::string& target) const { return http_get(host, target, 2); }

std::string Machine::nvml_library() const {
  const char* name = std::getenv("CONVOY_NVML_LIBRARY");
  return name != nullptr && *name != '\0' ? name : "libnvidia-ml.so.1";
}

double Machine::unix_time() const {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::unique_ptr<Machine> this_machine() {
  const char* root = std::getenv("CONVOY_METER_ROOT");
  return std::make_unique<Machine>(root != nullptr && *root != '\0' ? root : "/");
}

double number_in(const std::string& text, const std::string& where) {
  const auto first = text.find_first_not_of(" \t");
  double value = 0;
  if (first != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + first, end, value);
    if (error == std::errc() && rest == end && std::isfinite(value)) return value;
  }
  fail("{}: expected a number instead of '{}'", where, printable(text, 40));
}

std::optional<double> number_if_any(const Machine& machine, const std::string& path) {
  try {
    return number_in(machine.read(path), path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string text_if_any(const Machine& machine, const std::string& path) {
  try {
    return machine.read(path);
  } catch (const Unreadable&) {
    return "";
  }
}

std::vector<std::string> names_like(const Machine& machine, const std::string& folder, const std::string& prefix) {
  try {
    std::vector<std::string> names = machine.names(folder);
    std::erase_if(names, [&](const std::string& name) { return !name.starts_with(prefix); });
    return names;
  } catch (const Unreadable& error) {
    if (!error.missing()) throw;
    return {};
  }
}

}  // namespace convoy::energy
