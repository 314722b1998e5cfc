#include "core/openmp_waiting.hpp"

#include <unistd.h>

#include <cstdlib>

namespace convoy {

void let_waiting_threads_sleep(char** arguments) {
  constexpr const char* kSpins = "GOMP_SPINCOUNT";
  // Measured: as fast as 300,000, libgomp's own, where nobody else computes; without any, small nets lose a fifth.
  constexpr const char* kFew = "1000";
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv(kSpins) != nullptr) return;
  if (setenv(kSpins, kFew, 0) != 0) return;
  execv("/proc/self/exe", arguments);
}

}  // namespace convoy
