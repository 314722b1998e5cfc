// A disk cache of facts about a device and its driver, kept between runs.
#pragma once

#include <optional>
#include <string>

namespace convoy {

/// Returns the value stored under `key`; empty where there is none or it cannot be read.
std::optional<std::string> recall(const std::string& key);
/// Stores the value for every process of this user; does nothing where the file cannot be written.
void remember(const std::string& key, const std::string& value);
/// Stores the value unless another process has stored one, and returns the stored value, so that processes that measure
/// at the same time agree.
std::string settle(const std::string& key, const std::string& value);

}  // namespace convoy
