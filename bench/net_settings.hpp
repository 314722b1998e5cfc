// Nets with other numbers of filters than their files.
#pragma once

#include <string>
#include <vector>

namespace convoy {

/// Returns `set` and the settings of the net for "50:500" filters in the first two stages; none are added for an empty text.
/// Throws Error where the net has fewer stages.
std::vector<std::string> settings_of(const std::string& filters, const std::string& net, std::vector<std::string> set);

}  // namespace convoy
