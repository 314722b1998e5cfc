// What was found out about a device and its driver, kept on disk between runs.
#pragma once

#include <optional>
#include <string>

namespace convoy {

/// What was kept under this key; nothing where there is nothing, or where it cannot be read.
std::optional<std::string> recall(const std::string& key);
/// Keeps it, for every process of this user; does nothing where it cannot be written.
void remember(const std::string& key, const std::string& value);
/// Keeps it unless another process was first; what is kept, so that processes that find out at the same time agree.
std::string settle(const std::string& key, const std::string& value);

}  // namespace convoy
