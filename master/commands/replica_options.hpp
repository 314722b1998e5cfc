// The options of convoy-master train for replicas of the net.
#pragma once

namespace CLI {
class App;
}

namespace convoy {

struct TrainOptions;

/// Defines the options that say how many batches a step takes, who computes them, and who updates the weights.
void define_replicas(CLI::App& command, TrainOptions& options);

}  // namespace convoy
