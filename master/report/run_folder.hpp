// The folder of a run: what belongs to it and what it is called.
#pragma once

#include <string>

namespace convoy {

/// Makes the folder, `out` or runs/<net>-<first free number>. Throws Error when `out` already holds a run, or cannot be
/// made.
std::string make_run_folder(const std::string& out, const std::string& net);

}  // namespace convoy
