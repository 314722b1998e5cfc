// Exit codes of the programs; docs/command-line.md lists them.
#pragma once

namespace convoy {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;        ///< bad input, or the program could not go on; the message names the cause
inline constexpr int kUsage = 2;          ///< the command line cannot be read
inline constexpr int kSlaveLost = 3;      ///< a slave was lost; the last checkpoint is intact
inline constexpr int kInterrupted = 130;  ///< Ctrl-C: the step was finished and a checkpoint written

}  // namespace convoy
