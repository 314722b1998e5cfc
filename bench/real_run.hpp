// A training run on this machine by the programs themselves: a master and slaves as processes over loopback.
#pragma once

#include <string>
#include <vector>

namespace convoy {

/// The command lines of a training run.
struct RealRun {
  std::vector<std::string> master;  ///< arguments of convoy-master after "train", except those for slaves
  std::vector<std::string> slave;   ///< options of every convoy-slave
  int slaves = 0;
};

/// The measurements of a training run.
struct RealSteps {
  std::vector<double> seconds;  ///< by step
  double master_mib = 0.0;      ///< peak resident memory
  double slave_mib = 0.0;       ///< the highest peak of all slaves
};

/// Runs the training to its end. Throws Error with the end of a program's output where it fails.
RealSteps run_really(const RealRun& run);

}  // namespace convoy
