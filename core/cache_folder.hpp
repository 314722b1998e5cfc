#pragma once

#include <filesystem>
#include <string>

namespace convoy {

/// Returns the folder for files that can be made again, by the XDG Base Directory Specification: convoy/KIND in
/// $XDG_CACHE_HOME or in ~/.cache. The path is empty where neither XDG_CACHE_HOME nor HOME is set.
std::filesystem::path cache_folder(const std::string& kind);

}  // namespace convoy
