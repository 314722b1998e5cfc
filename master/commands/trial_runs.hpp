// The training runs that a search makes of its rungs.
#pragma once

#include <string>

#include "master/commands/options.hpp"
#include "master/jobs/asha.hpp"

namespace convoy {

class TrialRuns {
 public:
  /// The parts that all trials have in common.
  struct Common {
    const Space& space;
    const Ladder& ladder;
    const std::vector<std::string>& fixed;  ///< fields of the net that are the same in all trials
    TrainOptions train;                     ///< options of a run, without fields of the net and without a run folder
    std::string folder;                     ///< folder of the search
    int images = 0;                         ///< number of training images
  };
  /// The references must outlive the object.
  explicit TrialRuns(Common common) : common_(std::move(common)) {}

  /// Returns the net of a trial. Throws Error if the net refuses the setting.
  Net net_of(const Job& job) const;
  /// Returns the number of steps that a trial has done at the end of a rung.
  long steps_at(const Net& net, int rung) const;
  /// Returns the options of the run that ends with `steps` steps, without `resume`.
  TrainOptions options_of(const Job& job, long steps) const;
  /// Returns the run folder of a trial.
  std::string folder_of(int trial) const;
  /// Throws Error if a rung ended at another step than expected. Then somebody has trained the trial further, and the
  /// weights of the rung are gone.
  void expect_at(const Job& job, long step, long expected) const;

 private:
  Common common_;
};

}  // namespace convoy
