// Takes the weights of PyTorch models from safetensors files.
#pragma once

#include <string>
#include <vector>

#include "model/safetensors.hpp"
#include "nets/file/module_names.hpp"

namespace convoy {

struct TorchWeights {
  std::vector<NamedTensor> tensors;  ///< named after the net's layers
  std::vector<std::string> unused;   ///< names of the file's tensors that no layer takes
};

/// Takes each layer's weights from its module. `names` gives the modules; a layer that it leaves out has the same name
/// in the model. A module may also be a parameter, which has the weights itself. Extents of 1 at the end may differ.
/// Throws Error naming layer and module if a tensor is missing or has other extents than the net needs.
TorchWeights take_torch_weights(const SafetensorsFile& from, const std::string& file, const Net& net,
                                const ModuleNames& names);

}  // namespace convoy
