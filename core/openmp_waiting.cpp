#include "core/openmp_waiting.hpp"

#include <unistd.h>

#include <cstdlib>

namespace convoy {

void let_waiting_threads_sleep(char** arguments) {
  constexpr const char* kPolicy = "OMP_WAIT_POLICY";
  if (std::getenv(kPolicy) != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  if (setenv(kPolicy, "passive", 0) != 0) return;
  execv("/proc/self/exe", arguments);
}

}  // namespace convoy
