// Settings that give a net other numbers of filters than its file.
#pragma once

#include <string>
#include <vector>

namespace convoy {

/// Returns `set` and, for `filters` such as "50:500", the settings that give the first two stages of `net` 50 and 500
/// filters. An empty `filters` adds nothing. Throws Error if the net has fewer stages.
std::vector<std::string> settings_of(const std::string& filters, const std::string& net, std::vector<std::string> set);

}  // namespace convoy
