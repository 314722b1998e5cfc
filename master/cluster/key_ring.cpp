#include "master/cluster/key_ring.hpp"

#include <algorithm>
#include <utility>

namespace convoy {
namespace {

using namespace std::chrono_literals;
using wire::Clock;

constexpr auto kLookAgain = 1s;
constexpr std::size_t kMostNotices = 64;
constexpr std::size_t kMostRevoked = 4096;

bool same(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec && a.st_mode == b.st_mode;
}

}  // namespace

KeyRing::KeyRing(const std::string& given, std::chrono::milliseconds grace)
    : path_(key_file_path(given)), grace_(grace), file_(read_or_make_keys(path_)), keys_(file_.keys) {}

const SlaveKey* KeyRing::find(const std::string& public_key) const {
  const auto found = std::ranges::find(file_.slaves, public_key, &SlaveKey::public_key);
  return found == file_.slaves.end() ? nullptr : &*found;
}

void KeyRing::follow(bool now) {
  if (!now && Clock::now() < next_look_) return;
  next_look_ = Clock::now() + kLookAgain;
  struct stat status {};
  stat(path_.c_str(), &status);  // A missing file has the state zero, and reading it says so.
  if (same(status, seen_)) return;
  seen_ = status;
  try {
    read();
  } catch (const std::exception& error) {
    if (notices_.size() < kMostNotices) {
      notices_.push_back(fmt::format("{}; the run goes on with the keys that it has", error.what()));
    }
  }
}

void KeyRing::read() {
  KeyFile next = read_keys(path_);
  if (next.keys.master.public_key != keys_.master.public_key ||
      next.keys.member.public_key != keys_.member.public_key) {
    fail("{}: the file has the keys of another master now, which take effect at the next start", path_);
  }
  for (const SlaveKey& each : file_.slaves) {
    if (revoked_.size() < kMostRevoked) revoked_[each.public_key] = each.name;
  }
  file_ = std::move(next);
  for (const SlaveKey& each : file_.slaves) revoked_.erase(each.public_key);
}

bool KeyRing::is_held(const SlaveKey& key) const {
  const auto held = held_.find(key.public_key);
  return held != held_.end() && (!held->second || Clock::now() < *held->second);
}

std::string KeyRing::objection(const std::string& public_key) {
  const std::scoped_lock lock(mutex_);
  follow(false);
  const bool shared = public_key == keys_.member.public_key;
  if (!shared && find(public_key) == nullptr) follow(true);
  if (shared) return file_.shared ? "" : "the key for all slaves is turned off";
  const SlaveKey* key = find(public_key);
  if (key != nullptr) {
    return key->used.empty() || is_held(*key) ? "" : fmt::format("the one-time key of slave {} is used up", key->name);
  }
  const auto revoked = revoked_.find(public_key);
  if (revoked != revoked_.end()) return fmt::format("the key of slave {} was revoked", revoked->second);
  return "its key is not a key of this master's slaves; it may have been revoked";
}

std::string KeyRing::objection_to_name(const std::string& public_key, const std::string& name) {
  const std::scoped_lock lock(mutex_);
  follow(false);
  const SlaveKey* key = find(public_key);
  const SlaveKey* owner = owner_of_name(file_, name);
  if (key == owner) return "";
  if (key == nullptr) {
    return fmt::format(
        "the name '{}' belongs to slave {}, which has a key of its own; start this slave with another --name", name,
        owner->name);
  }
  return fmt::format("the key of this slave is for the name {}, not '{}'; start it with --name {}", key->name, name,
                     key->name);
}

bool KeyRing::is_one_time(const std::string& public_key) {
  const std::scoped_lock lock(mutex_);
  const SlaveKey* key = find(public_key);
  return key != nullptr && key->once;
}

void KeyRing::join(const std::string& public_key) {
  const std::scoped_lock lock(mutex_);
  const SlaveKey* key = find(public_key);
  if (key == nullptr || !key->once) return;
  if (!is_held(*key)) {
    change_keys(path_, [&](KeyFile& file) {
      const auto found = std::ranges::find(file.slaves, public_key, &SlaveKey::public_key);
      if (found == file.slaves.end()) fail("the key of this slave was revoked");
      if (!found->used.empty()) fail("the one-time key of slave {} is used up", found->name);
      found->used = time_now();
    });
    notices_.push_back(
        fmt::format("slave {} joins with its one-time key, which nobody else can use from now on", key->name));
  }
  held_[public_key] = std::nullopt;
  follow(true);
}

void KeyRing::set_present(const std::set<std::string>& public_keys) {
  const std::scoped_lock lock(mutex_);
  const auto now = Clock::now();
  for (auto held = held_.begin(); held != held_.end();) {
    std::optional<wire::Deadline>& until = held->second;
    if (public_keys.contains(held->first)) {
      until.reset();
    } else if (!until) {
      until = now + grace_;
    }
    if (!until || now < *until) {
      ++held;
      continue;
    }
    const SlaveKey* gone = find(held->first);
    if (gone != nullptr) notices_.push_back(fmt::format("the one-time key of slave {} is used up", gone->name));
    held = held_.erase(held);
  }
}

std::vector<std::string> KeyRing::take_notices() {
  const std::scoped_lock lock(mutex_);
  follow(false);
  return std::exchange(notices_, {});
}

}  // namespace convoy
