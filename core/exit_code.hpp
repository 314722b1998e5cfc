// Exit codes of the programs; docs/command-line.md lists them.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "core/error.hpp"

namespace convoy {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;        ///< bad input, or the program could not go on; the message names the cause
inline constexpr int kUsage = 2;          ///< the command line cannot be read
inline constexpr int kSlaveLost = 3;      ///< a slave was lost; the last checkpoint is intact
inline constexpr int kInterrupted = 130;  ///< Ctrl-C: the step was finished and a checkpoint written

/// Ends a program at once after it lost its device. A regular exit would run the driver's own cleanup, which might wait
/// for the lost device for ever.
[[noreturn]] inline void end_without_device(const char* program, const DeviceLost& error) {
  fmt::print(stderr, "{}: {}\n", program, error.what());
  std::fflush(nullptr);
  std::_Exit(kFailure);
}

}  // namespace convoy
