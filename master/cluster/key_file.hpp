// The file in which a master keeps its keys and the public keys of its slaves.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "wire/keys.hpp"

namespace convoy {

/// A key that one slave has for itself. The master stores the public half alone, so the secret cannot be shown again.
struct SlaveKey {
  std::string name;        ///< name of the slave; with several devices, its slaves are called NAME-DEVICE
  std::string public_key;  ///< in Z85
  std::string made;        ///< time of its making, as in 2026-11-25T09:00:00Z
  bool once = false;       ///< the key serves the first slave that joins with it, until that slave has gone
  std::string used;        ///< time at which a slave first joined with it; empty if none has, or if not `once`
};

struct KeyFile {
  wire::MasterKeys keys;
  bool shared = true;  ///< whether the shared key, keys.member, is accepted
  std::vector<SlaveKey> slaves;
};

/// The path of a key file: `given`, or if it is empty, master-keys.json in $XDG_CONFIG_HOME/convoy or ~/.config/convoy.
std::string key_file_path(const std::string& given);

/// Whether the key file exists already. `given` is as in key_file_path(); the same holds for the functions below.
bool has_key_file(const std::string& given);

/// Reads the key file. If it does not exist, makes it and its folder with new keys, readable by the owner only. Throws
/// Error naming the file, and the line where its text is wrong.
KeyFile read_or_make_keys(const std::string& given);

/// Reads a key file that must exist.
KeyFile read_keys(const std::string& file);

/// Changes the key file: reads it, calls `change`, and writes the changed keys, whole or not at all. Two processes that
/// change a file at the same time do so one after the other. Throws Error naming the file, and passes on the errors of
/// `change`. After an error the file is as before.
void change_keys(const std::string& given, const std::function<void(KeyFile&)>& change);

/// The key of the slave that a name belongs to: the key of this name, or the one with the longest name NAME such that
/// the name begins with "NAME-". Null if the name belongs to no slave with a key of its own.
const SlaveKey* owner_of_name(const KeyFile& file, const std::string& name);

/// The present time in the form of SlaveKey::made.
std::string time_now();

}  // namespace convoy
