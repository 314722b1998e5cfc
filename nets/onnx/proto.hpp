// Readers of the parts of an ONNX file in the form of protobuf. Only graph.cpp, tensors.cpp and functions.cpp include
// the header.
#pragma once

// Debian's headers of ONNX need the macros with which the library was built.
#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <vector>

#include "nets/onnx/graph.hpp"

namespace convoy::onnx_file {

/// Reads tensors, and those in files beside the model.
class TensorReader {
 public:
  /// `file` is the model's name for errors. Data outside of the model are read from the folder `folder`.
  TensorReader(std::string file, std::string folder) : file_(std::move(file)), folder_(std::move(folder)) {}

  /// Throws Error if the tensor is damaged, or its data are outside of the folder.
  Constant read(const onnx::TensorProto& tensor);

 private:
  /// The bytes of a tensor that are in another file.
  std::string outside(const onnx::TensorProto& tensor, std::size_t bytes);
  /// The path of a file beside the model, as the model gives it.
  std::string place_of(const onnx::TensorProto& tensor, const std::string& location);

  std::string file_;
  std::string folder_;
  std::map<std::string, std::uint64_t> sizes_;  ///< bytes of each file beside the model, by its path
  std::uint64_t known_ = 0;                     ///< sum of the sizes
  std::uint64_t taken_ = 0;                     ///< bytes read from files beside the model
};

Attribute attribute_of(const onnx::AttributeProto& from, TensorReader& tensors);

/// Reads the nodes of a model. A node that calls a function of the model is replaced by the function's nodes.
std::vector<Node> read_nodes(const onnx::ModelProto& model, TensorReader& tensors, const std::string& file);

}  // namespace convoy::onnx_file
