#include "devices/library_threads.hpp"

#include <linux/limits.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace convoy {
namespace {

void let_waiting_threads_sleep(char** arguments) {
  constexpr const char* kSpins = "GOMP_SPINCOUNT";
  // 5000 spins were as fast as libgomp's default of 300,000 on an otherwise idle machine; without spinning, small nets
  // lose a fifth of their speed.
  constexpr const char* kFew = "5000";
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv(kSpins) != nullptr) return;
  if (setenv(kSpins, kFew, 0) != 0) return;
  // exec takes the program's real path, because tools would show the name of the link otherwise.
  std::array<char, PATH_MAX> path{};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) > 0) execv(path.data(), arguments);
}

void hold_pocl_threads_to_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  if (CPU_COUNT(&allowed) < sysconf(_SC_NPROCESSORS_ONLN)) return;
  setenv("POCL_AFFINITY", "1", 0);
}

}  // namespace

void settle_library_threads(char** arguments) {
  hold_pocl_threads_to_cores();
  let_waiting_threads_sleep(arguments);
}

}  // namespace convoy
