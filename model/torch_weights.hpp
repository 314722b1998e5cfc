// Weights of models that PyTorch made and safetensors holds.
#pragma once

#include <string>
#include <vector>

#include "model/safetensors.hpp"
#include "nets/file/module_names.hpp"

namespace convoy {

struct TorchWeights {
  std::vector<NamedTensor> tensors;  ///< under the names of the net's layers
  std::vector<std::string> unused;   ///< of the file's
};

/// A layer that `names` leaves out is called as in the net. Throws Error naming layer and module where a tensor is missing
/// or of other extents.
TorchWeights take_torch_weights(const SafetensorsFile& from, const std::string& file, const Net& net,
                                const ModuleNames& names);

}  // namespace convoy
