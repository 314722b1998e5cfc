// Rules that a compiler does not check: which headers a folder may include, which file may ask for backends, who owns
// memory, and how long files and lines may be. Each rule is a pure function of one file's path and text.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace convoy::house {

/// The folders with code. Each is one CMake target, except that tests has several.
const std::vector<std::string>& code_folders();

// Each function returns a line "PATH:LINE: breach and rule" for each breach in a file. `path` is relative to the root
// of the tree ("wire/link.cpp"), and `text` is the whole file.

std::vector<std::string> include_breaches(const std::string& path, const std::string& text);
std::vector<std::string> backend_breaches(const std::string& path, const std::string& text);
std::vector<std::string> ownership_breaches(const std::string& path, const std::string& text);
std::vector<std::string> size_breaches(const std::string& path, const std::string& text);
std::vector<std::string> leftover_breaches(const std::string& path, const std::string& text);
/// Names of hosts that serve a system's packages: which mirror a system uses stands in its own settings.
std::vector<std::string> mirror_breaches(const std::string& path, const std::string& text);

/// A source's names in unnamed namespaces: its constants, and its functions by their first line, each with its line
/// number.
std::map<std::string, int> private_names(const std::string& text);

/// The breaches of all rules.
std::vector<std::string> breaches(const std::string& path, const std::string& text);

}  // namespace convoy::house
