// A training on this machine by the programs themselves: a master and slaves as processes over loopback.
#pragma once

#include <string>
#include <vector>

namespace convoy {

struct RealRun {
  std::vector<std::string> master;  ///< words of convoy-master behind "train", without those for slaves
  std::vector<std::string> slave;   ///< options of every convoy-slave
  int slaves = 0;
};

struct RealSteps {
  std::vector<double> seconds;  ///< of each step
  double master_mib = 0.0;      ///< peak of resident memory
  double slave_mib = 0.0;       ///< the highest of all slaves'
};

/// Runs it to its end. Throws Error with the program's last words where one fails.
RealSteps run_really(const RealRun& run);

}  // namespace convoy
