// The file in which the master keeps its keys.
#pragma once

#include <string>

#include "wire/keys.hpp"

namespace convoy {

/// Reads the key file. If it does not exist, makes it and its folder with new keys, readable by the owner only. An
/// empty `file` means master-keys.json in $XDG_CONFIG_HOME/convoy or ~/.config/convoy. Throws Error naming the file.
wire::MasterKeys master_keys(const std::string& file);

/// Whether the key file exists already, so that master_keys() would only read it.
bool has_master_keys(const std::string& file);

}  // namespace convoy
