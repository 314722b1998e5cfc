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

/// Trains rungs until the search ends. Which rung comes next is decided by next_job(). Results are handed on in the order of the
/// decisions, whichever machine ends first; results that have to wait for others are found again after a kill, because the
/// checkpoints of their trials are those of the ends of their rungs.
class TrialsAtOnce : private JobDispatcher::Owner {
 public:
  struct Parts {
    const SearchOptions& options;
    const Space& space;
    const Ladder& ladder;
    const Net& net;                       ///< by which machines are timed
    const NetOptions& data_options;       ///< what `data` are
    std::shared_ptr<const DataSet> data;  ///< images for this net
    const TrialRuns& runs;
    const RungResults& results;  ///< all that were added
    std::function<void(RungResult)> add;
    std::function<bool()> is_out_of_time;
    std::string command_line;  ///< the user's
    SearchOutput& output;
  };
  /// References must outlive the object.
  explicit TrialsAtOnce(Parts parts);

  /// Returns when the search has ended, when a rung has failed, or once `stop` is set and all runs have ended with a checkpoint.
  void run(const std::atomic<bool>& stop);
  /// Whether the search has not ended yet.
  bool has_more() const;
  /// Why a rung failed, so that the search cannot go on; empty where none has.
  const std::string& failure() const { return failure_; }

 private:
  /// A decision whose result has not been added yet.
  struct Open {
    Job job;
    long steps = 0;                    ///< at the end of the rung
    double seconds = 0.0;              ///< on all machines so far
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
  const std::string device_;  ///< of all trials on this machine
  OpenedData data_;
  std::list<JobToDo> jobs_;
  std::deque<Open> open_;  ///< in the order of the decisions
  std::string failure_;
  JobDispatcher* dispatcher_ = nullptr;  ///< while it runs
};

}  // namespace convoy
