// The training runs that a search makes of its rungs.
#pragma once

#include <string>

#include "master/commands/options.hpp"
#include "master/jobs/asha.hpp"

namespace convoy {

class TrialRuns {
 public:
  /// What all trials have in common.
  struct Common {
    const Space& space;
    const Ladder& ladder;
    const std::vector<std::string>& fixed;  ///< fields of the net that are the same in all trials
    TrainOptions train;                     ///< without fields of the net and run folder
    std::string folder;                     ///< of the search
    int images = 0;                         ///< training images
  };
  /// References must outlive the object.
  explicit TrialRuns(Common common) : common_(std::move(common)) {}

  /// The net of a trial. Throws Error where the trial is refused.
  Net net_of(const Job& job) const;
  /// The steps of a trial at the end of a rung.
  long steps_at(const Net& net, int rung) const;
  /// The options of the run, without `resume`.
  TrainOptions options_of(const Job& job, long steps) const;
  /// The run folder of a trial.
  std::string folder_of(int trial) const;
  /// Throws Error where a rung ended at another step than expected: somebody has trained the trial further, so that an earlier
  /// rung has no result any more.
  void expect_at(const Job& job, long step, long expected) const;

 private:
  Common common_;
};

}  // namespace convoy
