// Reads which modules of a model of another program hold the weights of a net's layers.
#pragma once

#include <map>
#include <string>

#include "nets/graph/net.hpp"

namespace convoy {

/// For each layer of a net, the module of the model that holds its weights.
using ModuleNames = std::map<std::string, std::string>;

/// Reads a YAML map from layer to module, such as "conv1: features.0". Throws Error naming file and line if the file is
/// not such a map, or names a layer that the net lacks or that has no weights.
ModuleNames read_module_names(const std::string& file, const Net& net);
/// The same of the text of a file. `file` is the name that errors give.
ModuleNames parse_module_names(const std::string& text, const std::string& file, const Net& net);

}  // namespace convoy
