// The contents of an ONNX file as plain structs, checked as far as possible without knowledge of the operators. Only
// the sources of onnx.hpp include the header.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace convoy::onnx_file {

/// A constant tensor of floats or of integers.
struct Constant {
  std::vector<std::int64_t> dims;
  std::vector<float> floats;
  std::vector<std::int64_t> integers;

  std::size_t size() const { return floats.empty() ? integers.size() : floats.size(); }
};

struct Attribute {
  std::optional<double> number;
  std::vector<std::int64_t> integers;  ///< the elements of a list, or a single integer
  std::string text;
  std::optional<Constant> tensor;
};

struct Node {
  std::string name;
  std::string type;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, Attribute> attributes;
};

struct Graph {
  std::int64_t opset = 0;
  std::string input;
  std::vector<int> input_dims;  ///< extents of the input without the batch
  std::string output;
  std::map<std::string, Constant> constants;
  std::vector<Node> nodes;  ///< the nodes that the output depends on, in topological order
};

/// Parses a model, or a file with one tensor. `file` is the name that errors give. Throws Error.
Graph read_graph(const std::string& bytes, const std::string& file);
Constant read_tensor(const std::string& bytes, const std::string& file);

}  // namespace convoy::onnx_file
