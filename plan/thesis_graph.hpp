// The task graph of Exchange::thesis, the scheme of the source thesis. Only make_task_graph() calls it.
#pragma once

#include "plan/task_graph.hpp"

namespace convoy {

/// For each stage, the master sends the input and the weights to the slaves, the slaves compute the convolution and
/// send its raw maps back, and the master computes the layers after it. The backward pass works in the same way.
/// Transfers and computations do not overlap: the weights of a stage travel together with its input.
TaskGraph make_thesis_graph(const Plan& plan, const std::vector<Stage>& trunk, bool training);

}  // namespace convoy
