// A job while a machine or a group of slaves trains it: a training run in a thread of its own.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/stopwatch.hpp"
#include "master/commands/training_run.hpp"
#include "master/jobs/job_book.hpp"
#include "wire/switchboard.hpp"

namespace convoy {

/// The options of a job for a run on so many slaves, or on the master alone. The plan of one slave is fixed so that the
/// slave computes a step as the master would: all stages, all images of a batch at once. Several slaves get the plan
/// that is predicted to be the fastest, among those in which slaves compute.
TrainOptions options_on(TrainOptions job, int batch, std::size_t slaves);

/// What a job does on its machine if it does not train a net. The options are those of options_on(). As a training run
/// does, it comes through the door of `parts`, tells the observers of its first step, its plans and its steps, and ends
/// when *parts.stop is set. Nothing but the machine may fail it before its first step.
using JobWork = std::function<RungEnd(const TrainOptions& options, TrainingRun::Parts parts)>;

/// What has happened in a run since it was last asked.
struct JobNews {
  std::vector<std::string> notices;
  std::vector<EpochReport> epochs;
  std::optional<StepReport> step;  ///< the last
};

/// How a run ended.
struct JobRunEnd {
  JobOutcome outcome = JobOutcome::finished;
  bool diverged = false;  ///< with `failed`: whether training diverged
  bool unfit = false;     ///< with `lost`: whether the machine is there and cannot take the job
  bool gone = false;      ///< whether no machine is there any more, even if this machine has done the last step
  std::vector<std::string> absent = {};   ///< slaves that have not come
  std::vector<std::string> members = {};  ///< members of the last plan; empty if there was none
  bool begun = false;                     ///< whether there was a first step to do
  long first_step = 0;                    ///< steps of the job before the run, where it has begun
  long steps = 0;                         ///< and after it
  double seconds = 0.0;
  double accuracy = NAN;
  double loss = NAN;
  ImageBytes images = {};  ///< of a run on slaves that finished or was interrupted
  std::string why = {};
  std::exception_ptr fatal = {};  ///< an error of this program or of its device, after which nothing can go on
};

class JobRun {
 public:
  struct Parts {
    TrainOptions options;
    std::string command_line;
    std::shared_ptr<const DataSet> data;
    std::unique_ptr<wire::Switchboard::Line> line;  ///< of the slaves that train; null for the master
    std::shared_ptr<KeyRing> keys;
    JobWork work = {};  ///< empty to train
  };
  /// Begins. `changed` is called in the run's thread when there is something to learn.
  JobRun(Parts parts, std::function<void()> changed);
  /// Stops the run and waits for its end.
  ~JobRun();
  JobRun(const JobRun&) = delete;
  JobRun& operator=(const JobRun&) = delete;

  /// Ends the run after the step at hand, with a checkpoint.
  void stop() { stop_ = true; }
  /// Seconds since the run was begun.
  double seconds() const { return watch_.seconds(); }
  /// Whether all slaves have come, if there are any.
  bool joined() const;
  bool begun() const;
  JobNews take_news();
  /// Nothing while the run goes on.
  std::optional<JobRunEnd> end() const;

 private:
  class Watcher;
  void run();
  void release_notices();
  JobRunEnd train();
  JobRunEnd end_of(const RungEnd& rung) const;

  Parts parts_;
  std::function<void()> changed_;
  Stopwatch watch_;
  std::atomic<bool> stop_{false};
  bool ready_ = false;  ///< whether nothing but the machine can fail the run before it begins

  mutable std::mutex mutex_;  ///< guards all that follows, and parts_.line
  JobNews news_;
  std::vector<std::string> pending_;  ///< notices that are news once the run has gone on, or after some seconds
  Stopwatch pending_since_;           ///< the oldest of these notices
  bool begun_ = false;
  long first_step_ = 0;
  long step_ = 0;
  std::vector<std::string> members_;  ///< of the last plan
  bool lost_ = false;                 ///< whether all slaves were lost
  std::string why_lost_;
  std::optional<JobRunEnd> end_;

  std::thread thread_;
};

}  // namespace convoy
