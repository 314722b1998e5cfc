// Loads the net that a command's options name.
#pragma once

#include "master/commands/options.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// The net file with --set, --batch and --epochs applied.
Net load_net(const NetOptions& options);
Net load_net(const TrainOptions& options);

}  // namespace convoy
