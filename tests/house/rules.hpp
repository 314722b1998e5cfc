// The rules of the house that a compiler does not know: which folder may include what, which file may ask for
// a backend, and how long a file may be. Each rule is a pure function of one file's path and text.
#pragma once

#include <string>
#include <vector>

namespace convoy::house {

/// Folders that hold code, each one CMake target (tests hold several).
const std::vector<std::string>& code_folders();

/// One line for each breach in a file, as "path:line: what, and what the rule is". `path` is relative to the
/// root of the tree ("wire/link.cpp"); `text` is the whole file.
std::vector<std::string> include_breaches(const std::string& path, const std::string& text);
std::vector<std::string> backend_breaches(const std::string& path, const std::string& text);
std::vector<std::string> ownership_breaches(const std::string& path, const std::string& text);
std::vector<std::string> size_breaches(const std::string& path, const std::string& text);
std::vector<std::string> leftover_breaches(const std::string& path, const std::string& text);
/// Names of hosts that serve a system's packages: which mirror a system uses stands in its own settings.
std::vector<std::string> mirror_breaches(const std::string& path, const std::string& text);

/// All of them.
std::vector<std::string> breaches(const std::string& path, const std::string& text);

}  // namespace convoy::house
