// The keys of a master while it runs. The key file may change meanwhile, by `convoy-master key` in another process.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "master/cluster/key_file.hpp"
#include "wire/link.hpp"

namespace convoy {

/// Decides which slaves may connect and under which names. Looks once a second whether the key file has changed, and at
/// once when a client shows an unknown key. A file that cannot be read leaves the keys as they were, except that the
/// user is told. All functions may be called from several threads.
class KeyRing {
 public:
  /// Reads the key file, or makes it. `grace` is the time for which a one-time key waits for its slave to come back.
  explicit KeyRing(const std::string& given, std::chrono::milliseconds grace = std::chrono::minutes(1));

  const wire::MasterKeys& keys() const { return keys_; }

  /// The reason why a client with this public key may not connect or send, as a clause; empty if it may.
  std::string objection(const std::string& public_key);
  /// The reason why a slave with this public key may not have a name, as a sentence; empty if it may.
  std::string objection_to_name(const std::string& public_key, const std::string& name);
  bool is_one_time(const std::string& public_key);
  /// Called when a slave joins; notes in the key file that its one-time key is used. Throws Error if the file cannot be
  /// written or the key was used meanwhile by a slave of another master process.
  void join(const std::string& public_key);
  /// Takes the public keys of all slaves that are here. The others have the grace to come back with their one-time
  /// keys.
  void set_present(const std::set<std::string>& public_keys);

  /// The texts for the user since the last call.
  std::vector<std::string> take_notices();

 private:
  void follow(bool now);
  void read();
  const SlaveKey* find(const std::string& public_key) const;
  bool is_held(const SlaveKey& key) const;

  const std::string path_;
  const std::chrono::milliseconds grace_;
  std::mutex mutex_;
  struct stat seen_ {};       ///< state of the file when it was last looked at
  wire::Deadline next_look_;  ///< when to look at the file again
  KeyFile file_;
  const wire::MasterKeys keys_;
  std::map<std::string, std::string> revoked_;  ///< names of slaves by public keys that were in the file before
  /// One-time keys that were used in this process, and until when they are accepted; without a value while the slave is
  /// here.
  std::map<std::string, std::optional<wire::Deadline>> held_;
  std::vector<std::string> notices_;
};

}  // namespace convoy
