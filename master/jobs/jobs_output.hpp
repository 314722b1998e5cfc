// What `convoy-master jobs` prints: text for people, or JSON lines for programs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "master/jobs/job_book.hpp"
#include "train/observer.hpp"

namespace convoy {

/// A list of jobs as its training begins or goes on.
struct JobsStart {
  std::size_t jobs = 0;
  std::size_t done = 0;  ///< jobs that were finished before
  std::string folder;
};

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

struct JobsEnd {
  std::string how;         ///< "finished", "failed" (some of the jobs) or "interrupted"
  std::string text;        ///< how it ended, as a sentence for people
  std::string go_on = {};  ///< the command that goes on; empty where nothing is left to do
  double seconds = 0.0;
};

class JobsOutput {
 public:
  virtual ~JobsOutput() = default;
  virtual void begin(const JobsStart& start) = 0;
  virtual void notice(const std::string& text) = 0;
  virtual void timed(const std::vector<TimedMachine>& machines) = 0;
  /// A machine begins with a job, or goes on with one; `seconds` is how long it is predicted to take, infinite where nothing is
  /// known.
  virtual void begin_job(const std::string& job, const std::string& machine, double seconds) = 0;
  virtual void epoch(const std::string& job, const EpochReport& report) = 0;
  virtual void progress(const std::vector<RunningJob>& running) = 0;
  virtual void leave(const JobPart& part) = 0;
  virtual void end(const JobsEnd& end, const std::vector<JobRow>& rows) = 0;
};

std::unique_ptr<JobsOutput> make_jobs_output(bool json);

}  // namespace convoy
