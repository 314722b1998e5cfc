// Activations of graphs that are exported.
#pragma once

#include "core/stage.hpp"
#include "nets/onnx/node_writer.hpp"

namespace convoy::onnx_file {

class ActivationWriter : public NodeWriter {
 protected:
  /// Writes an activation of the value `x`, as one or several nodes.
  void write_activation(const std::string& name, const Activation& activation, const std::string& x);

 private:
  void write_clip(const std::string& name, float low, float high, const std::string& x);
  /// Writes x times an operator's result for x.
  onnx::NodeProto& write_product(const std::string& name, const std::string& x, const std::string& type);
  /// The operator HardSwish came with opset 14.
  void write_hard_swish(const std::string& name, const std::string& x);
  /// The operator Gelu came with opset 20. The nodes are those of PyTorch: x * (1 + erf(x / sqrt(2))) * 0.5.
  void write_gelu(const std::string& name, const std::string& x);
  /// The nodes of PyTorch's GELU with approximate="tanh": x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))).
  void write_gelu_by_tanh(const std::string& name, const std::string& x);
  /// The operator Mish came with opset 18.
  void write_mish(const std::string& name, const std::string& x);
};

}  // namespace convoy::onnx_file
