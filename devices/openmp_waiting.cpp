#include "devices/openmp_waiting.hpp"

#include <linux/limits.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace convoy {

void let_waiting_threads_sleep(char** arguments) {
  constexpr const char* kSpins = "GOMP_SPINCOUNT";
  // Measured: as fast as 300,000, libgomp's own, where nobody else computes; without any, small nets lose a fifth.
  constexpr const char* kFew = "5000";
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv(kSpins) != nullptr) return;
  if (setenv(kSpins, kFew, 0) != 0) return;
  // By its name: that of the link would be what tools show.
  std::array<char, PATH_MAX> path{};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) > 0) execv(path.data(), arguments);
}

}  // namespace convoy
