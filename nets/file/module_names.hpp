// Where other programs keep the weights of a net's layers.
#pragma once

#include <map>
#include <string>

#include "nets/graph/net.hpp"

namespace convoy {

/// Of a net's layers, the modules of the model that hold their weights.
using ModuleNames = std::map<std::string, std::string>;

/// A YAML map from layer to module, such as "conv1: features.0". Throws Error naming file and line for what is none, and
/// for layers that the net does not have or that have no weights.
ModuleNames read_module_names(const std::string& file, const Net& net);

}  // namespace convoy
