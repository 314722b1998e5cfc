// The scheme of the source thesis as a task graph, for comparison. For make_task_graph alone.
#pragma once

#include "plan/task_graph.hpp"

namespace convoy {

/// For each stage the master sends its input and the weights, slaves convolve, raw maps come back, and the master does what
/// follows; backward likewise. Nothing overlaps: a stage's weights travel when its input does.
TaskGraph make_thesis_graph(const Plan& plan, const std::vector<Stage>& trunk, bool training);

}  // namespace convoy
