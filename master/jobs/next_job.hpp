// What a search does next: to promote a trial, to begin a new one, or to end.
#pragma once

#include <optional>

#include "master/jobs/asha.hpp"

namespace convoy {

/// The next rung, as a function of the rungs that are finished. Nothing where the search has ended: the trials of the budget,
/// or of the grid, have begun and none may go on, or the next rung would take more images than the budget has left. The hours
/// of a budget are not looked at.
std::optional<Job> next_job(const Space& space, const Ladder& ladder, const RungResults& results);

/// The same for a search that has up to `at_once` rungs under way. Its decisions are counted from 1; `results` are those of the
/// first decisions, in their order, and `open` are the rungs of the decisions after them. Decision i looks at the results of the
/// decisions up to i - at_once, and at what the decisions after them are, but not at how these end, whether or not they have
/// ended. So a decision does not depend on which machine is faster. Where nothing follows from these results, it takes one more
/// result at a time. Nothing where at_once rungs are open, or where nothing follows from all results: then the search has ended
/// if none is open, and otherwise the decision waits.
std::optional<Job> next_job(const Space& space, const Ladder& ladder, const RungResults& results,
                            const std::vector<Job>& open, std::size_t at_once);

/// The training images of all trials so far.
long images_of(const RungResults& results);

}  // namespace convoy
