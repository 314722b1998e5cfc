// What a search does next: to promote a trial, to begin a new one, or to end.
#pragma once

#include <optional>

#include "master/jobs/asha.hpp"

namespace convoy {

/// A rung that is to be trained.
struct Job {
  int trial = 1;  ///< counted from 1
  int rung = 0;
  TrialSetting setting;
};

/// The next rung, as a function of the rungs that are finished. Nothing where the search has ended: the trials of the budget,
/// or of the grid, have begun and none may go on, or the next rung would take more images than the budget has left. The hours
/// of a budget are not looked at.
std::optional<Job> next_job(const Space& space, const Ladder& ladder, const RungResults& results);

/// The training images of all trials so far.
long images_of(const RungResults& results);

}  // namespace convoy
