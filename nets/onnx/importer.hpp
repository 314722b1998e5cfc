// Follows the nodes of an ONNX model and builds a net of them. Only the sources of onnx.hpp include the header.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "nets/onnx/builder.hpp"
#include "nets/onnx/graph.hpp"
#include "nets/onnx/onnx.hpp"

namespace convoy::onnx_file {

/// Imports one model. Each operator has a member function, which adds a layer, folds a constant into weights, computes
/// a constant, or refuses the node with an Error.
class Importer {
 public:
  Importer(Graph graph, std::string file, const std::string& name)
      : graph_(std::move(graph)), file_(std::move(file)), builder_(name) {
    for (const Node& node : graph_.nodes) {
      for (const std::string& input : node.inputs) ++readers_[input];
    }
    ++readers_[graph_.output];
    values_[graph_.input] = {.layer = "input", .dims = graph_.input_dims};
  }

  ImportedNet run();

 private:
  template <class... Args>
  [[noreturn]] void refuse(const Node& node, fmt::format_string<Args...> text, Args&&... args) const {
    fail("{}: node {} ({}): {}", file_, node.name, node.type, fmt::format(text, std::forward<Args>(args)...));
  }

  // ---- the parts of a node -----------------------------------------------------------------------------------------

  static bool has(const Node& node, std::size_t input);
  const Constant* constant_if(const Node& node, std::size_t input) const;
  /// The constant at an input. Refuses the node if the input is not constant; `what` names the input in the error.
  const Constant& constant(const Node& node, std::size_t input, const char* what) const;
  const std::vector<float>& floats(const Node& node, std::size_t input, const char* what) const;
  const Value& value(const Node& node, std::size_t input);
  /// The input as maps (channels, rows, columns). Refuses an input of other extents.
  const Value& maps(const Node& node, std::size_t input = 0);
  double number(const Node& node, const std::string& attribute, double otherwise) const;
  std::vector<int> integers(const Node& node, const std::string& attribute, std::vector<int> otherwise) const;
  static std::vector<int> narrow(const std::vector<std::int64_t>& values);
  void give(const Node& node, Value value);

  // ---- operators --------------------------------------------------------------------------------------------------

  void import(const Node& node);
  void make_constant(const Node& node);
  void constant_of_shape(const Node& node);
  void identity(const Node& node);
  /// The padding of a convolution or pooling: top, left, bottom, right. Kernel and strides are (rows, columns).
  std::vector<int> sides(const Node& node, const Value& from, const std::vector<int>& kernel,
                         const std::vector<int>& strides) const;
  std::vector<int> two(const Node& node, const std::string& attribute, std::vector<int> otherwise) const;
  void expect_dense_windows(const Node& node) const;
  void conv(const Node& node);
  void give_bare(const Node& node, Value value);
  void pool(const Node& node);
  void global_average_pool(const Node& node);
  void activation(const Node& node);
  void batch_norm(const Node& node);
  void response_norm(const Node& node);
  void dropout(const Node& node);
  void softmax(const Node& node);

  // ---- several inputs ---------------------------------------------------------------------------------------------

  void concat(const Node& node);
  void add(const Node& node);
  void multiply(const Node& node);
  /// Folds a constant, one number for each channel or one for all, into the weights of the layer before.
  void change(const Node& node, std::size_t input, const std::vector<float>& by, std::size_t constant_input,
              const std::function<void(float& weight, float& bias, float by)>& how);

  // ---- dense layers -----------------------------------------------------------------------------------------------

  void gemm(const Node& node);
  void matmul(const Node& node);
  void dense(const Node& node, const Constant& weights, bool by_units, float factor, std::vector<float> bias);

  // ---- shapes -----------------------------------------------------------------------------------------------------

  void flatten(const Node& node);
  /// Reshapes a constant to any shape. A value may only keep its shape or be flattened to a list.
  void reshape(const Node& node);
  /// The extents after a Reshape. The first extent may be 0, which stands for the batch.
  std::vector<std::int64_t> reshaped(const Node& node, const std::vector<std::int64_t>& dims) const;
  /// The extents after a Squeeze or Unsqueeze.
  std::vector<std::int64_t> squeezed(const Node& node, std::vector<std::int64_t> dims) const;
  void transpose(const Node& node);
  /// Adds a layer for padding of channels; folds padding of rows and columns into the convolutions that follow.
  void pad(const Node& node);
  /// Takes every n-th row and column, as a max pooling with a kernel of 1.
  void slice(const Node& node);

  Graph graph_;
  std::string file_;
  Builder builder_;
  ImportedNet imported_;
  std::size_t made_ = 0;  ///< number of values in constants that nodes have computed
  std::map<std::string, int> readers_;
  std::map<std::string, Value> values_;
};

}  // namespace convoy::onnx_file
