#include "master/cluster/key_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "nets/file/fields.hpp"
#include "plan/plan.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostSlaves = 1024;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

/// The end of an error about a file that is no key file.
constexpr const char* kMend =
    "this is not a key file of Convoy; give the key file of this master with --keys, or a new file name to make new "
    "keys";

// ---- reading -------------------------------------------------------------------------------------------------------

std::string key(Fields& fields, const std::string& field) {
  const std::string read = fields.text(field, 40);
  if (!wire::is_key(read)) fields.fail(field, "is no key: it has other than the 40 characters of one");
  return read;
}

wire::KeyPair key_pair(Fields fields) {
  wire::KeyPair pair{key(fields, "public"), key(fields, "secret")};
  fields.finish();
  return pair;
}

std::string time_of(Fields& fields, const std::string& field) {
  const std::string read = fields.text(field, 20);
  std::tm parsed{};
  const char* end = strptime(read.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parsed);
  if (end == nullptr || *end != '\0') fields.fail(field, "is no time; expected one as in 2026-11-25T09:00:00Z");
  return read;
}

SlaveKey slave_key(Fields fields) {
  SlaveKey slave{.name = fields.text("name", kLongestName),
                 .public_key = key(fields, "public"),
                 .made = time_of(fields, "made"),
                 .once = fields.boolean("once"),
                 .used = fields.has("used") ? time_of(fields, "used") : ""};
  if (const auto fault = fault_of_name(slave.name)) fields.fail("name", "cannot be used: " + *fault);
  if (is_master(slave.name)) fields.fail("name", fmt::format("is {}, the name of the master", kMasterName));
  if (!slave.used.empty() && !slave.once) fields.fail("used", "is the field of a one-time key, and this key is none");
  fields.finish();
  return slave;
}

KeyFile parse(const std::string& file, const std::string& content) {
  Fields fields = Fields::of_text(file, content, "the key file", kMend);
  if (!fields.has("master") || !fields.has("member")) fail("{}:1: {}", file, kMend);
  KeyFile read{.keys = {key_pair(fields.map("master")), key_pair(fields.map("member"))},
               .shared = !fields.has("shared") || fields.boolean("shared"),
               .slaves = {}};
  std::set<std::string> names;
  std::set<std::string> keys{read.keys.member.public_key};
  if (fields.has("slaves")) {
    for (const Fields& entry : fields.maps("slaves", kMostSlaves, "a slave's key")) {
      read.slaves.push_back(slave_key(entry));
      if (!names.insert(read.slaves.back().name).second) entry.fail("name", "is the name of another slave too");
      if (!keys.insert(read.slaves.back().public_key).second) entry.fail("public", "is the key of another slave too");
    }
  }
  fields.finish();
  return read;
}

// ---- writing -------------------------------------------------------------------------------------------------------

[[noreturn]] void cannot_write(const std::string& file, int error) {
  fail("{}: the file cannot be written: {}; give another file with --keys", file, std::strerror(error));
}

std::string text_of(const KeyFile& keys) {
  Json json;
  for (const auto& [name, pair] : {std::pair{"master", &keys.keys.master}, std::pair{"member", &keys.keys.member}}) {
    json[name] = {{"public", pair->public_key}, {"secret", pair->secret_key}};
  }
  json["shared"] = keys.shared;
  json["slaves"] = Json::array();
  for (const SlaveKey& each : keys.slaves) {
    Json slave{{"name", each.name}, {"public", each.public_key}, {"made", each.made}, {"once", each.once}};
    if (!each.used.empty()) slave["used"] = each.used;
    json["slaves"].push_back(std::move(slave));
  }
  return json.dump(1) + "\n";
}

/// A file of the owner alone, in the folder of the key file, that vanishes unless it takes the key file's place.
class NextFile {
 public:
  NextFile(const std::string& file, const std::string& content) : file_(file), path_(file + ".XXXXXX") {
    const int handle = mkostemp(path_.data(), O_CLOEXEC);
    if (handle < 0) cannot_write(file, errno);
    const bool written =
        write(handle, content.data(), content.size()) == static_cast<ssize_t>(content.size()) && fsync(handle) == 0;
    const int why = written ? 0 : errno == 0 ? ENOSPC : errno;
    close(handle);
    if (!written) {
      unlink(path_.c_str());
      cannot_write(file, why);
    }
  }
  ~NextFile() { unlink(path_.c_str()); }
  NextFile(const NextFile&) = delete;
  NextFile& operator=(const NextFile&) = delete;

  /// Keeps a key file that exists: two masters that start at the same time use the keys of the first one.
  void become_new() const {
    if (link(path_.c_str(), file_.c_str()) != 0 && errno != EEXIST) cannot_write(file_, errno);
  }
  void replace() const {
    if (rename(path_.c_str(), file_.c_str()) != 0) cannot_write(file_, errno);
  }

 private:
  std::string file_;
  std::string path_;
};

void make_keys(const std::string& file) {
  const fs::path folder = fs::absolute(file).parent_path();
  if (!fs::exists(folder)) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (!error) fs::permissions(folder, fs::perms::owner_all, error);
  }
  NextFile(file, text_of({.keys = {wire::make_key_pair(), wire::make_key_pair()}, .shared = true, .slaves = {}}))
      .become_new();
}

/// Holds the key file against other processes that would change it.
class Lock {
 public:
  explicit Lock(const std::string& file) {
    while (true) {
      handle_ = open(file.c_str(), O_RDWR | O_CLOEXEC);
      if (handle_ < 0) cannot_write(file, errno);
      struct stat held {};
      struct stat named {};
      while (flock(handle_, LOCK_EX) != 0) {
        if (errno == EINTR) continue;
        const int why = errno;
        close(handle_);
        cannot_write(file, why);
      }
      // Another process may have replaced the file while this one waited; its lock then holds nothing any more.
      if (fstat(handle_, &held) == 0 && stat(file.c_str(), &named) == 0 && held.st_ino == named.st_ino) return;
      close(handle_);
    }
  }
  ~Lock() { close(handle_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int handle_ = -1;
};

}  // namespace

std::string key_file_path(const std::string& given) {
  if (!given.empty()) return given;
  for (const auto& [variable, below] : {std::pair{"XDG_CONFIG_HOME", ""}, std::pair{"HOME", "/.config"}}) {
    const char* folder = std::getenv(variable);
    if (folder != nullptr && folder[0] == '/') return std::string(folder) + below + "/convoy/master-keys.json";
  }
  fail(
      "the master has no folder for its keys, since neither HOME nor XDG_CONFIG_HOME is set to an absolute path; give "
      "a key file with --keys");
}

bool has_key_file(const std::string& given) {
  std::error_code ignored;
  return fs::exists(key_file_path(given), ignored);
}

KeyFile read_keys(const std::string& file) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) {
    fail("{}: this is a folder, not a key file of Convoy; give the key file of this master with --keys", file);
  }
  KeyFile keys = parse(file, read_text(file, kMostBytes));
  if (others_can_read(file)) {
    fail(
        "{}: other users can read these keys; run `chmod 600` on the file, or remove it to get new keys if somebody "
        "may have read it",
        file);
  }
  return keys;
}

KeyFile read_or_make_keys(const std::string& given) {
  const std::string file = key_file_path(given);
  if (!has_key_file(file)) make_keys(file);
  return read_keys(file);
}

void change_keys(const std::string& given, const std::function<void(KeyFile&)>& change) {
  std::string file = key_file_path(given);
  if (!has_key_file(file)) make_keys(file);
  // The file that a symbolic link names is replaced, not the link.
  file = fs::canonical(file).string();
  const Lock lock(file);
  KeyFile keys = read_keys(file);
  change(keys);
  if (keys.slaves.size() > kMostSlaves)
    fail("{}: {} slaves with keys of their own are the most; revoke some first", file, kMostSlaves);
  NextFile(file, text_of(keys)).replace();
}

const SlaveKey* owner_of_name(const KeyFile& file, const std::string& name) {
  const SlaveKey* owner = nullptr;
  for (const SlaveKey& each : file.slaves) {
    const bool owns = name == each.name || name.starts_with(each.name + "-");
    if (owns && (owner == nullptr || each.name.size() > owner->name.size())) owner = &each;
  }
  return owner;
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

}  // namespace convoy
