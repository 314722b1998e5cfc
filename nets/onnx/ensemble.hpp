// Writes an ensemble of nets as one ONNX model.
#pragma once

#include <string>
#include <vector>

#include "core/named_tensor.hpp"
#include "nets/graph/combination.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// A net with its weights, named as in safetensors files. Both must outlive the call.
struct EnsemblePart {
  const Net& net;
  const std::vector<NamedTensor>& tensors;
};

/// Returns an ONNX model of opset 13 with a free batch size. Unlike that of to_onnx(), its input are pixels / 255,
/// since each part normalises them by its own scales. Its output has a score for each class; its name is that of the
/// combination. The parts must have scales, the same input and as many classes. Throws Error if a tensor is missing or
/// the model would be too large.
std::string ensemble_to_onnx(const std::vector<EnsemblePart>& parts, Combination how);

}  // namespace convoy
