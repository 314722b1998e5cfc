// Runs a slave for each of several devices of one machine. Each slave has a process of its own, so that a fault of one
// device does not end the other slaves.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace convoy {

/// Runs `work` for each name in a process of its own, and waits for all processes. SIGINT and SIGTERM are passed on to
/// them, and they receive SIGTERM when this process dies. Returns 0, or the exit code of the first process that failed;
/// failures are also reported on stderr. Call it before the program starts a thread.
int run_each_apart(const std::vector<std::string>& names, const std::function<int(const std::string& name)>& work);

}  // namespace convoy
