// Pictures, drawn by gnuplot where it is installed.
#pragma once

#include <string>

namespace convoy {

/// Runs gnuplot on `script`, in `folder`. A picture is a convenience: without gnuplot the script stays for whoever has it,
/// and the answer is false.
bool run_gnuplot(const std::string& folder, const std::string& script);

}  // namespace convoy
