#include "master/cluster/master_keys.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "master/commands/options.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string default_file() {
  for (const auto& [variable, below] : {std::pair{"XDG_CONFIG_HOME", ""}, std::pair{"HOME", "/.config"}}) {
    const char* folder = std::getenv(variable);
    if (folder != nullptr && folder[0] == '/') return std::string(folder) + below + "/convoy/master-keys.json";
  }
  fail("neither HOME nor XDG_CONFIG_HOME says where the master's keys are; give a file with --keys");
}

wire::MasterKeys read_keys(const std::string& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    fail("{}: others can read these keys; chmod 600 it, or remove it for new ones if somebody may have read it", file);
  }
  wire::MasterKeys keys;
  try {
    const Json json = Json::parse(read_text(file));
    for (const auto& [name, pair] : {std::pair{"master", &keys.master}, std::pair{"member", &keys.member}}) {
      *pair = {json.at(name).at("public"), json.at(name).at("secret")};
      if (!wire::is_key(pair->public_key) || !wire::is_key(pair->secret_key))
        fail("{}: the {} keys are none", file, name);
    }
  } catch (const Json::exception& error) {
    fail("{}: no keys of a master: {}; remove it for new ones", file, error.what());
  }
  return keys;
}

void write_keys(const std::string& file, const wire::MasterKeys& keys) {
  const auto failed = [&] {
    fail("{}: cannot be written: {}; give another file with --keys", file, std::strerror(errno));
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
  // Whoever is first stays: two masters that start at once have the same keys.
  const bool linked = written && (link(next.c_str(), file.c_str()) == 0 || errno == EEXIST);
  const int why = errno;
  unlink(next.c_str());
  errno = why;
  if (!linked) failed();
}

}  // namespace

wire::MasterKeys master_keys(const std::string& given) {
  const std::string file = given.empty() ? default_file() : given;
  if (!fs::exists(file)) write_keys(file, {wire::make_key_pair(), wire::make_key_pair()});
  return read_keys(file);
}

int key_command(const std::string& keys) {
  fmt::print("{}\n", to_text(master_keys(keys).join_key()));
  return 0;
}

}  // namespace convoy
