// Classification nets in ONNX files (onnx.ai): in, as a net file and weights, and out.
#pragma once

#include <string>
#include <vector>

#include "core/named_tensor.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

struct ImportedNet {
  std::string yaml;                  ///< a net file, which parse_net has read
  std::vector<NamedTensor> tensors;  ///< weights, as net's safetensors files have them
  bool channels_last = false;        ///< the model's input is (rows, columns, channels); the net's is not
  bool softmax = false;              ///< the model ends with one; the net's outputs are what goes into it
  std::vector<std::string> notices;  ///< what its user should know
};

/// Opsets 7 to 18 of ONNX's own domain. Throws Error naming the file, and the node with its operator that has no counterpart
/// here. `name`: of the net.
ImportedNet import_onnx(const std::string& file, const std::string& name);
/// The same from memory; `file` serves for messages.
ImportedNet parse_onnx(const std::string& bytes, const std::string& file, const std::string& name);

/// The net with its weights, by their names in safetensors files, as an ONNX model (opset 13) of any batch: what goes into
/// the main loss. Side heads are left out. Throws Error where a tensor is missing.
std::string to_onnx(const Net& net, const std::vector<NamedTensor>& tensors);

/// A tensor in a file of its own, as ONNX's test data come. Throws Error naming the file.
NamedTensor read_onnx_tensor(const std::string& file);

}  // namespace convoy
