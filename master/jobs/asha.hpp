// Which trial goes on: asynchronous successive halving (L. Li et al., "A System for Massively Parallel Hyperparameter
// Tuning", arXiv 1810.05934, algorithm 2), in the form that promotes. Every trial begins on the lowest rung. Whenever a
// machine is free, the highest rung of which one of the best 1/factor trials has not gone on yet promotes the best of
// these; only where there is none, a new trial begins. So no trial waits for others, and with one machine good trials
// are trained further before all trials have begun.
#pragma once

#include <optional>

#include "master/jobs/trial.hpp"

namespace convoy {

/// The numbers of training images at which the rungs end, from the lowest on.
struct Ladder {
  std::vector<long> images;
  int factor = 3;

  int top() const { return static_cast<int>(images.size()) - 1; }
};

/// The ladder of a space: first, first x factor, first x factor^2 and so on below the last rung, then the last rung.
/// `full` is the number of images in all epochs of the net. Throws Error naming the space where its rungs do not fit in
/// them.
Ladder ladder_of(const Space& space, long full);

/// A trial that may go on to the rung above.
struct Promotion {
  int trial = 1;
  int rung = 0;  ///< the rung to which it goes
};

/// The trial to promote after these results, if any. Equal trials go on in the order of their numbers. Trials that
/// diverged count among those of their rung, and never go on. Trials on a rung of `open`, which is under way, are not
/// promoted to it again.
std::optional<Promotion> promotion_after(const RungResults& results, const Ladder& ladder, Metric metric,
                                         const std::vector<Job>& open = {});

}  // namespace convoy
