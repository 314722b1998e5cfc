// What a search tells of its trials: lines and a table for people, CSV, and a picture.
#pragma once

#include <string>
#include <vector>

#include "master/jobs/asha.hpp"

namespace convoy {

/// The last results of all trials with a cost, the best first.
std::vector<const RungResult*> best_of(const RungResults& results, Metric metric);

/// "trial 7, rung 2/4: accuracy 98.12 %, loss 0.0612 after 9000 images; training.learning_rate=0.013; 12 s"
std::string rung_line(const Space& space, const Ladder& ladder, const RungResult& result);

/// The best trials, at most `most`, as the lines of a table; one line that says so where there is none.
std::vector<std::string> best_table(const Space& space, const Ladder& ladder, const RungResults& results,
                                    std::size_t most = 10);

/// A row for each rung, with a column for each parameter.
std::string to_csv(const Space& space, const RungResults& results);

/// A script for gnuplot that draws slices.png: for each parameter, the metric of every rung over the parameter's value.
/// Trials that diverged are crosses at the bottom.
std::string slice_script(const Space& space, const Ladder& ladder, const RungResults& results);

}  // namespace convoy
