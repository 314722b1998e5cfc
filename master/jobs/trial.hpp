// The trials of a search: a setting of the net's fields that is trained, and tested at the end of each of its rungs.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "master/jobs/space.hpp"

namespace convoy {

enum class TrialOutcome : std::uint8_t {
  finished,  ///< the rung was trained and tested
  diverged,  ///< a loss, a weight or an output of the net became infinite or NaN
  refused    ///< the net does not take this setting; nothing was trained
};

/// A rung that is to be trained.
struct Job {
  int trial = 1;  ///< counted from 1
  int rung = 0;
  TrialSetting setting;
};

/// A rung that a trial has come to the end of.
struct RungResult {
  int trial = 1;  ///< counted from 1, in the order in which trials began
  int rung = 0;   ///< counted from 0
  TrialSetting setting;
  TrialOutcome outcome = TrialOutcome::finished;
  long images = 0;  ///< images with which the trial was trained since its begin
  double accuracy = std::numeric_limits<double>::quiet_NaN();  ///< of the test images, a fraction; NaN if not tested
  double loss = std::numeric_limits<double>::quiet_NaN();      ///< mean over the test images; NaN if not tested
  std::string why = {};                                        ///< why the trial diverged or was refused
  double seconds =
      0.0;  ///< of the rung, as far as it was trained without a break; with several trials at once, on all machines
  std::string machine = {};  ///< with several trials at once, the machine that ended the rung
};

/// The result of a trial that the net does not take.
inline RungResult refused_result(const Job& job, std::string why) {
  return {.trial = job.trial,
          .rung = job.rung,
          .setting = job.setting,
          .outcome = TrialOutcome::refused,
          .why = std::move(why)};
}

/// In the order in which the rungs were finished; with several trials at once, in the order in which they were chosen.
using RungResults = std::vector<RungResult>;

/// What a search makes small; infinite for a trial that diverged or was refused.
inline double cost_of(const RungResult& result, Metric metric) {
  const double cost = metric == Metric::accuracy ? 1.0 - result.accuracy : result.loss;
  return result.outcome == TrialOutcome::finished && std::isfinite(cost) ? cost
                                                                         : std::numeric_limits<double>::infinity();
}

}  // namespace convoy
