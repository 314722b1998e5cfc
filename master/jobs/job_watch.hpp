// What jobs tell while machines train them, whoever they belong to: a list of jobs, or a search.
#pragma once

#include <string>
#include <vector>

#include "train/observer.hpp"

namespace convoy {

/// A machine with its speed, which was timed or else guessed.
struct TimedMachine {
  std::string name;
  double gflops = 0.0;  ///< of the net that was timed; 0 where it was not timed
};

/// A job that a machine trains now.
struct RunningJob {
  std::string job;
  std::string machine;
  long steps = 0;     ///< of the whole job
  StepReport report;  ///< the last step
};

class JobWatch {
 public:
  virtual ~JobWatch() = default;
  virtual void notice(const std::string& text) = 0;
  virtual void timed(const std::vector<TimedMachine>& machines) = 0;
  /// A machine begins with a job, or goes on with one; `seconds` is how long it is predicted to take, infinite where nothing is
  /// known.
  virtual void begin_job(const std::string& job, const std::string& machine, double seconds) = 0;
  virtual void epoch(const std::string& job, const EpochReport& report) = 0;
  virtual void progress(const std::vector<RunningJob>& running) = 0;
};

/// "machines: slave-1 12.3 GFLOP/s, slave-2 could not be timed"
std::string text_of(const std::vector<TimedMachine>& machines);
/// "small on slave-1: step 12/120, loss 0.4321, 1234 images/s, 5 s left", for a line that changes.
std::string text_of(const RunningJob& job);

}  // namespace convoy
