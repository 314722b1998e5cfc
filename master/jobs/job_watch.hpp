// The events of jobs while machines train them, for a list of jobs as well as for a search.
#pragma once

#include <string>
#include <vector>

#include "train/observer.hpp"

namespace convoy {

/// A machine and its speed.
struct TimedMachine {
  std::string name;
  double gflops = 0.0;  ///< speed on the net that was timed; 0 if the machine could not be timed
};

/// A job that a machine trains now.
struct RunningJob {
  std::string job;
  std::string machine;
  long steps = 0;     ///< steps of the whole job
  StepReport report;  ///< the last step
};

class JobWatch {
 public:
  virtual ~JobWatch() = default;
  virtual void notice(const std::string& text) = 0;
  virtual void timed(const std::vector<TimedMachine>& machines) = 0;
  /// A machine begins a job or goes on with it. `seconds` is the predicted time until the end of the job, or infinite
  /// if nothing is known.
  virtual void begin_job(const std::string& job, const std::string& machine, double seconds) = 0;
  virtual void epoch(const std::string& job, const EpochReport& report) = 0;
  virtual void progress(const std::vector<RunningJob>& running) = 0;
};

/// Returns a line such as "machines: slave-1 12.3 GFLOP/s, slave-2 could not be timed".
std::string text_of(const std::vector<TimedMachine>& machines);
/// Returns a line such as "small on slave-1: step 12/120, loss 0.4321, 1234 images/s, 5 s left".
std::string text_of(const RunningJob& job);

}  // namespace convoy
