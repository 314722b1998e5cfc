// Makes the folder of a run.
#pragma once

#include <string>

namespace convoy {

/// Makes the folder `out`, or runs/NET-NUMBER with the first free number if `out` is empty, and returns its path.
/// Throws Error if `out` already holds a run or the folder cannot be made.
std::string make_run_folder(const std::string& out, const std::string& net);

}  // namespace convoy
