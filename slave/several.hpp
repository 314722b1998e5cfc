// Several devices of one machine: a slave each, in a process each, so that one that breaks takes no other with it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace convoy {

/// Runs `work` for each name in a process of its own and waits for all. SIGINT and SIGTERM are passed on to them, and
/// they are told to stop when this process dies. Returns 0, or the exit code of the first that failed; says on stderr
/// which one ended badly. To be called before the program has started any thread.
int run_each_apart(const std::vector<std::string>& names, const std::function<int(const std::string& name)>& work);

}  // namespace convoy
