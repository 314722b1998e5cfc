// Import and export of classification nets in ONNX files (onnx.ai). An imported model becomes a net file and weights.
#pragma once

#include <string>
#include <vector>

#include "core/named_tensor.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

struct ImportedNet {
  std::string yaml;                  ///< net file, already checked by parse_net
  std::vector<NamedTensor> tensors;  ///< weights, named as in the net's safetensors files
  bool channels_last = false;        ///< the model's input is (rows, columns, channels), unlike the net's
  bool softmax = false;  ///< the main output is that of a softmax; the net's outputs are the softmax's inputs
  std::vector<std::string> notices;  ///< sentences for the user
};

/// Imports a model of opset 7 to 28 of ONNX's own domain; the net gets the name `name`. Tensors may be in other files
/// of the model's folder. The net has a loss for each of the model's outputs, or for each of `outputs` if there are
/// any; the first is the main one. Throws Error naming the file, and all nodes and operators that a net cannot
/// represent.
ImportedNet import_onnx(const std::string& file, const std::string& name, const std::vector<std::string>& outputs = {});
/// Imports a model from memory, with all its tensors. `file` is the name that errors give.
ImportedNet parse_onnx(const std::string& bytes, const std::string& file, const std::string& name,
                       const std::vector<std::string>& outputs = {});

/// Exports a net as an ONNX model of opset 13 with a free batch size. `tensors` are its weights, named as in
/// safetensors files. The model's output is the input of the main loss; side heads are left out. Throws Error if a
/// tensor is missing.
std::string to_onnx(const Net& net, const std::vector<NamedTensor>& tensors);

/// Reads a file that holds one tensor, such as the files of ONNX's test data. Throws Error naming the file.
NamedTensor read_onnx_tensor(const std::string& file);

}  // namespace convoy
