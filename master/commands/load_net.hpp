// Loads the net that a command's options name.
#pragma once

#include "master/commands/options.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// Reads the net file and applies --set, --batch and --epochs. Throws Error.
Net load_net(const NetOptions& options);
Net load_net(const TrainOptions& options);

}  // namespace convoy
