// Small ONNX models for tests, and the outputs of imported nets.
#pragma once

// Debian's headers of ONNX need the macros with which the library was built.
#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

#include "core/named_tensor.hpp"
#include "nets/graph/net.hpp"
#include "nets/onnx/onnx.hpp"

namespace convoy {

/// The inputs of the model's softmax, or the model's outputs if it has no softmax.
std::vector<float> outputs_of(const ImportedNet& model, const NamedTensor& input);
/// Random images for a net.
NamedTensor drawn_images(const Net& net, int batch);

/// A model with a convolution from (3, 8, 8) to 4 channels of 6x6, to which a test adds nodes. Each node reads what the
/// node before it computes, where a test says so by `last`.
class SmallModel {
 public:
  explicit SmallModel(int opset = 13);

  onnx::NodeProto& node(const std::string& type, const std::vector<std::string>& inputs);
  /// Random numbers; the same name gives the same numbers.
  void constant(const std::string& name, const std::vector<std::int64_t>& dims);
  void number(const std::string& name, float value);
  /// A list of integers.
  void integers(const std::string& name, const std::vector<std::int64_t>& values);
  /// A single integer, without extents.
  void integer(const std::string& name, std::int64_t value);
  /// Leaves the number of images free.
  void free_batch();
  /// The graph's constant of this name.
  onnx::TensorProto& tensor(const std::string& name);
  /// The numbers of a constant of floats.
  std::vector<float> values(const std::string& name);

  static void set(onnx::NodeProto& node, const std::string& name, const std::vector<int>& values);
  static void set_number(onnx::NodeProto& node, const std::string& name, float value);
  static void set_text(onnx::NodeProto& node, const std::string& name, const std::string& value);

  std::string bytes();

  onnx::ModelProto model;
  std::string last;  ///< the output of the last node
};

}  // namespace convoy
