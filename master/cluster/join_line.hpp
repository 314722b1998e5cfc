// The line that starts a slave, for people to paste.
#pragma once

#include <string>

#include "wire/keys.hpp"

namespace convoy {

/// The line for a slave that joins at `endpoint` with a key. An address of this machine replaces a wildcard. The key
/// stands in a variable, because every user of the slave's machine can see the options of a program. `name` is the
/// value of
/// --name, which a shell must read as it stands; an empty one leaves the slave to choose its name.
std::string join_line(const std::string& endpoint, const wire::JoinKey& key, const std::string& name = "");
/// The line for a slave whose link is not encrypted.
std::string insecure_join_line(const std::string& endpoint);

}  // namespace convoy
