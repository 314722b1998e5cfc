// Draws pictures with gnuplot, if it is installed.
#pragma once

#include <string>

namespace convoy {

/// Runs gnuplot on `script` in `folder`. Returns false if gnuplot is missing or fails; the script stays in the folder.
bool run_gnuplot(const std::string& folder, const std::string& script);

}  // namespace convoy
