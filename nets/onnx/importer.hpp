// Follows the nodes of an ONNX model and builds the net of them. For the sources of onnx.hpp alone.
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

  // ---- what nodes say ---------------------------------------------------------------------------------------------

  static bool has(const Node& node, std::size_t input);
  const Constant* constant_if(const Node& node, std::size_t input) const;
  const Constant& constant(const Node& node, std::size_t input, const char* what) const;
  const std::vector<float>& floats(const Node& node, std::size_t input, const char* what) const;
  const Value& value(const Node& node, std::size_t input);
  /// Of (channels, rows, columns).
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
  /// top, left, bottom, right, for kernels, strides and extents of rows and columns.
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
  /// A constant for each channel, or one for all, goes into the weights of the layer before.
  void change(const Node& node, std::size_t input, const std::vector<float>& by, std::size_t constant_input,
              const std::function<void(float& weight, float& bias, float by)>& how);

  // ---- dense layers -----------------------------------------------------------------------------------------------

  void gemm(const Node& node);
  void matmul(const Node& node);
  void dense(const Node& node, const Constant& weights, bool by_units, float factor, std::vector<float> bias);

  // ---- shapes -----------------------------------------------------------------------------------------------------

  void flatten(const Node& node);
  /// Of constants any; of values what leaves them as they are, or makes a list of them.
  void reshape(const Node& node);
  /// What Reshape makes of extents, of which the first may be 0, for the batch.
  std::vector<std::int64_t> reshaped(const Node& node, const std::vector<std::int64_t>& dims) const;
  /// What Squeeze or Unsqueeze makes of them.
  std::vector<std::int64_t> squeezed(const Node& node, std::vector<std::int64_t> dims) const;
  void transpose(const Node& node);
  /// Zeros around channels are a layer; those around maps go into the convolution behind.
  void pad(const Node& node);
  /// Every so many rows and columns.
  void slice(const Node& node);

  Graph graph_;
  std::string file_;
  Builder builder_;
  ImportedNet imported_;
  std::size_t made_ = 0;  ///< values of constants that the model has made, not stored
  std::map<std::string, int> readers_;
  std::map<std::string, Value> values_;
};

}  // namespace convoy::onnx_file
