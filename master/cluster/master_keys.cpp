#include "master/cluster/master_keys.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/files.hpp"
#include "master/commands/options.hpp"
#include "plan/json_fields.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string default_file() {
  for (const auto& [variable, below] : {std::pair{"XDG_CONFIG_HOME", ""}, std::pair{"HOME", "/.config"}}) {
    const char* folder = std::getenv(variable);
    if (folder != nullptr && folder[0] == '/') return std::string(folder) + below + "/convoy/master-keys.json";
  }
  fail(
      "the master has no folder for its keys, since neither HOME nor XDG_CONFIG_HOME is set to an absolute path; give "
      "a key file with --keys");
}

/// Parses the text of a file. Returns nothing if it is not JSON.
std::optional<Json> json_in(const std::string& text) {
  try {
    return parse_json(text);
  } catch (const Error&) {
  } catch (const Json::exception&) {
  }
  return std::nullopt;
}

/// Parses the text of a key file. Returns nothing if it is not a valid key file.
std::optional<wire::MasterKeys> keys_in(const std::string& text) {
  const std::optional<Json> json = json_in(text);
  wire::MasterKeys keys;
  for (const auto& [name, pair] : {std::pair{"master", &keys.master}, std::pair{"member", &keys.member}}) {
    if (!json || !json->is_object() || !json->contains(name)) return std::nullopt;
    const Json& halves = json->at(name);
    if (!halves.is_object()) return std::nullopt;
    for (const auto& [half, key] : {std::pair{"public", &pair->public_key}, std::pair{"secret", &pair->secret_key}}) {
      if (!halves.contains(half) || !halves[half].is_string()) return std::nullopt;
      *key = halves[half].get<std::string>();
      if (!wire::is_key(*key)) return std::nullopt;
    }
  }
  return keys;
}

wire::MasterKeys read_keys(const std::string& file) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(file, ignored);
  const auto keys = is_folder ? std::nullopt : keys_in(read_text(file));
  if (!keys) {
    fail(
        "{}: this is {}, not a key file of Convoy; give the key file of this master with --keys, or a new file name to "
        "make new keys",
        file, is_folder ? "a folder" : "another file");
  }
  struct stat status {};
  if (stat(file.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    fail(
        "{}: other users can read these keys; run `chmod 600` on the file, or remove it to get new keys if somebody "
        "may have read it",
        file);
  }
  return *keys;
}

void write_keys(const std::string& file, const wire::MasterKeys& keys) {
  const auto failed = [&] {
    fail("{}: the file cannot be written: {}; give another file with --keys", file, std::strerror(errno));
  };
  const fs::path folder = fs::absolute(file).parent_path();
  if (!fs::exists(folder)) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (!error) fs::permissions(folder, fs::perms::owner_all, error);
  }
  Json json;
  for (const auto& [name, pair] : {std::pair{"master", &keys.master}, std::pair{"member", &keys.member}}) {
    json[name] = {{"public", pair->public_key}, {"secret", pair->secret_key}};
  }
  const std::string text = json.dump(1) + "\n";
  const std::string next = fmt::format("{}.{}", file, getpid());
  const int handle = open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (handle < 0) failed();
  const bool written =
      write(handle, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(handle) == 0;
  close(handle);
  // link() never replaces a file, so two masters that start at the same time use the keys of the first one.
  const bool linked = written && (link(next.c_str(), file.c_str()) == 0 || errno == EEXIST);
  const int why = errno;
  unlink(next.c_str());
  errno = why;
  if (!linked) failed();
}

}  // namespace

bool has_master_keys(const std::string& given) {
  std::error_code ignored;
  return fs::exists(given.empty() ? default_file() : given, ignored);
}

wire::MasterKeys master_keys(const std::string& given) {
  const std::string file = given.empty() ? default_file() : given;
  if (!has_master_keys(file)) write_keys(file, {wire::make_key_pair(), wire::make_key_pair()});
  return read_keys(file);
}

int key_command(const KeyOptions& options) {
  if (!options.keys.empty() && !options.make && !has_master_keys(options.keys)) {
    fail(
        "{}: there is no such key file; make it with `convoy-master key --make --keys {}`, or start `convoy-master "
        "train` with slaves and the same --keys",
        options.keys, options.keys);
  }
  fmt::print("{}\n", to_text(master_keys(options.keys).join_key()));
  return 0;
}

}  // namespace convoy
