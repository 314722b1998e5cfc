// The master's keys, in a file of its user.
#pragma once

#include <string>

#include "wire/keys.hpp"

namespace convoy {

/// Reads the file, or makes it and its folder with fresh keys, readable by its owner alone. Empty: that in
/// $XDG_CONFIG_HOME/convoy, or ~/.config/convoy. Throws Error naming the file.
wire::MasterKeys master_keys(const std::string& file);

/// Whether that file is there, so that master_keys() makes no new one.
bool has_master_keys(const std::string& file);

}  // namespace convoy
