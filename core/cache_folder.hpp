#pragma once

#include <filesystem>
#include <string>

namespace convoy {

/// Where programs keep what they can do without, by the XDG Base Directory Specification: convoy/KIND in
/// $XDG_CACHE_HOME or ~/.cache. Empty where there is neither.
std::filesystem::path cache_folder(const std::string& kind);

}  // namespace convoy
