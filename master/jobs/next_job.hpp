// What a search does next: to promote a trial, to begin a new one, or to end.
#pragma once

#include <optional>

#include "master/jobs/asha.hpp"

namespace convoy {

/// The next rung, as a function of the rungs that are finished. Nothing where the search has ended: the trials of the
/// budget, or of the grid, have begun and none may go on, or the next rung would take more images than the budget has
/// left. The hours of a budget are not looked at.
std::optional<Job> next_job(const Space& space, const Ladder& ladder, const RungResults& results);

/// Returns the next rung of a search that has up to `at_once` rungs under way. The decisions of the search are counted
/// from 1; `results` has the results of the first decisions, in the order of the decisions, and `open` has the rungs of
/// the later decisions. Decision i uses the results of the decisions up to i - at_once. Of later decisions it knows the
/// rungs, but not the results, even if these are there. So a decision does not depend on which machine is faster. If no
/// rung follows from these results, the decision takes one more result at a time. Returns nothing if at_once rungs are
/// open, and if no rung follows from all results; in the latter case the search has ended if no rung is open, and
/// otherwise the decision waits.
std::optional<Job> next_job(const Space& space, const Ladder& ladder, const RungResults& results,
                            const std::vector<Job>& open, std::size_t at_once);

/// The training images of all trials so far.
long images_of(const RungResults& results);

}  // namespace convoy
