// What an ONNX file says, checked as far as it can be without knowing its operators. For the sources of onnx.hpp alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace convoy::onnx_file {

/// A constant: floats, or whole numbers.
struct Constant {
  std::vector<std::int64_t> dims;
  std::vector<float> floats;
  std::vector<std::int64_t> integers;

  std::size_t size() const { return floats.empty() ? integers.size() : floats.size(); }
};

struct Attribute {
  std::optional<double> number;
  std::vector<std::int64_t> integers;  ///< of a list, or the number
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
  std::vector<int> input_dims;  ///< without the batch; 0 where it is not fixed
  std::string output;
  std::map<std::string, Constant> constants;
  std::vector<Node> nodes;  ///< those that the output takes, each after those that it reads
};

/// Throws Error naming `file`.
Graph read_graph(const std::string& bytes, const std::string& file);
Constant read_tensor(const std::string& bytes, const std::string& file);

}  // namespace convoy::onnx_file
