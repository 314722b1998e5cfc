// Loads the net and the data that a command's options name.
#pragma once

#include "master/commands/options.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// Reads the net file and applies --set, --batch and --epochs. Throws Error.
Net load_net(const NetOptions& options);
Net load_net(const TrainOptions& options);

/// Opens the data of the options for a net, and sets images for validation aside with --val-split. Throws Error.
DataSet load_data(const NetOptions& options, std::uint64_t seed, const Net& net);

}  // namespace convoy
