// Weights of models that PyTorch made and safetensors holds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "master/safetensors.hpp"
#include "nets/net.hpp"

namespace convoy {

/// Of a net's layers, the modules of the model that hold their weights.
using ModuleNames = std::map<std::string, std::string>;

/// A YAML map from layer to module, such as "conv1: features.0". Throws Error naming file and line for what is none, and
/// for layers that the net does not have or that have no weights.
ModuleNames read_module_names(const std::string& file, const Net& net);

struct TorchWeights {
  std::vector<NamedTensor> tensors;  ///< under the names of the net's layers
  std::vector<std::string> unused;   ///< of the file's
};

/// A layer that `names` leaves out is called as in the net. Throws Error naming layer and module where a tensor is missing
/// or of other extents.
TorchWeights take_torch_weights(const SafetensorsFile& from, const std::string& file, const Net& net,
                                const ModuleNames& names);

}  // namespace convoy
