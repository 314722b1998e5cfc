// Several trials of a search side by side, each on one machine, through the machinery of `convoy-master jobs`.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "master/commands/job_dispatcher.hpp"
#include "master/commands/trial_runs.hpp"
#include "master/jobs/search_output.hpp"

namespace convoy {

/// Trains rungs until the search ends; next_job() decides which rung comes next. Results are handed on in the order of
/// the decisions, whichever machine ends first. A result that waits for results of earlier decisions is found again
/// after a kill, because the checkpoint of its trial is the one at the end of the rung.
class TrialsAtOnce : private JobDispatcher::Owner {
 public:
  struct Parts {
    const SearchOptions& options;
    const Space& space;
    const Ladder& ladder;
    const Net& net;                       ///< the net on which machines are timed
    const NetOptions& data_options;       ///< options of the data set
    std::shared_ptr<const DataSet> data;  ///< the data set
    const TrialRuns& runs;
    const RungResults& results;  ///< the results that were added so far
    std::function<void(RungResult)> add;
    std::function<bool()> is_out_of_time;
    std::string command_line;  ///< the command line that the user gave
    SearchOutput& output;
  };
  /// The references must outlive the object.
  explicit TrialsAtOnce(Parts parts);

  /// Returns when the search has ended, when a rung has failed, or once `stop` is set and all runs have ended with a
  /// checkpoint.
  void run(const std::atomic<bool>& stop);
  /// Returns whether the search has not ended yet.
  bool has_more() const;
  /// Returns why a rung failed, so that the search cannot go on; empty if no rung has failed.
  const std::string& failure() const { return failure_; }

 private:
  /// A decision whose result has not been added yet.
  struct Open {
    Job job;
    long steps = 0;                    ///< steps of the trial at the end of the rung
    double seconds = 0.0;              ///< seconds of training on all machines so far
    const JobToDo* to_do = nullptr;    ///< null once the rung has ended
    std::optional<RungResult> result;  ///< once the rung has ended
  };

  void decide();
  bool decide_next();
  void begin(const Job& job);
  bool hand_on();
  void on_leave(JobToDo& job, const JobPart& part) override;
  RungResult result_of(const Open& open, const JobToDo& job, const JobPart& part) const;

  const Parts parts_;
  const std::string device_;  ///< the device of all trials on this machine
  OpenedData data_;
  std::list<JobToDo> jobs_;
  std::deque<Open> open_;  ///< in the order of the decisions
  std::string failure_;
  JobDispatcher* dispatcher_ = nullptr;  ///< while it runs
};

}  // namespace convoy
