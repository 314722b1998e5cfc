// The settings of a search's trials, one after another. Each is a function of the space, its seed and the rungs that
// were finished before, so that a search that is resumed, or repeated, has the same trials.
#pragma once

#include <optional>

#include "master/jobs/trial.hpp"

namespace convoy {

/// The setting of trial `trial`, counted from 1; nothing where a grid has no more.
///   grid    all combinations, in the order of the file; the last parameter changes first
///   random  each parameter by itself, uniformly over its range
///   tpe     as random for the first ten trials; then by a Parzen estimator (tpe.hpp) of the results on the highest
///           rung that three more trials have finished than there are parameters (as S. Falkner et al., "BOHB", ICML
///           2018, choose their budget). Trials under way that have no result on this rung yet count as worse than all
///           that have
/// Random and tpe draw again, up to a hundred times, where a trial has had the setting already, be it one of `open`,
/// the rungs that are under way.
std::optional<TrialSetting> setting_of(int trial, const Space& space, const RungResults& results,
                                       const std::vector<Job>& open = {});

/// The number of settings of a grid.
long size_of_grid(const Space& space);

}  // namespace convoy
