// The contents of an ONNX file as plain structs, checked as far as possible without knowledge of the operators. Only
// the sources of onnx.hpp include the header.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace convoy::onnx_file {

/// A constant tensor of floats or of integers. Truth values are integers 0 and 1.
struct Constant {
  std::vector<std::int64_t> dims;
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
  bool whole = false;  ///< it holds integers, even if it is empty

  std::size_t size() const { return whole ? integers.size() : floats.size(); }
};

/// Stands for the number of images where a model leaves it free. Shapes hold the symbol as an element; it can be moved
/// about, but not computed with. No extent of a tensor can be as large.
inline constexpr std::int64_t kBatch = 0x4261'7463'6853'697A;  // "BatchSiz"

struct Attribute {
  std::optional<double> number;
  std::vector<std::int64_t> integers;  ///< the elements of a list, or a single integer
  std::vector<float> floats;           ///< the elements of a list, or a single number
  std::string text;
  std::optional<Constant> tensor;
};

struct Node {
  std::string name;
  std::string type;
  std::string domain;   ///< empty for ONNX's own operators
  std::string refused;  ///< why the node cannot be read; empty if it can
  std::string joined;   ///< the operators of the model's nodes that the node replaces, for messages
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, Attribute> attributes;
};

struct Graph {
  std::int64_t opset = 0;
  std::string input;
  std::int64_t batch = kBatch;       ///< the number of images, if the model fixes it
  std::vector<int> input_dims;       ///< extents of the input without the batch
  std::vector<std::string> outputs;  ///< the outputs to import, the main one first
  std::string all_outputs;           ///< the names of the model's outputs and their shapes, for messages
  std::map<std::string, Constant> constants;
  std::vector<Node> nodes;  ///< the nodes that the outputs depend on, in topological order; functions are inlined
};

/// The nodes that the outputs depend on, in their order.
std::vector<Node> needed(std::vector<Node> nodes, const std::vector<std::string>& outputs);

/// Says why a node is refused. The importer catches it and goes on with the other nodes.
struct Refused {
  std::string reason;
};

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Refused{fmt::format(text, std::forward<Args>(args)...)};
}

/// An attribute of the node, or `otherwise` where the node does not have it.
double number(const Node& node, const std::string& attribute, double otherwise);
/// Whether an LRN over `size` channels sums channel `from` for its channel `to`.
inline bool in_band(std::int64_t size, std::int64_t to, std::int64_t from) {
  return from >= to - (size - 1) / 2 && from <= to + size / 2;
}
std::int64_t integer(const Node& node, const std::string& attribute, std::int64_t otherwise);
std::vector<std::int64_t> integers(const Node& node, const std::string& attribute, std::vector<std::int64_t> otherwise);
std::string text(const Node& node, const std::string& attribute, const std::string& otherwise);

/// Parses a model, or a file with one tensor. `file` is the name that errors give. Tensors in other files are read from
/// the folder `folder`; if it is empty, they are refused. `outputs` are the outputs to import; empty: all. Throws
/// Error.
Graph read_graph(const std::string& bytes, const std::string& file, const std::string& folder,
                 const std::vector<std::string>& outputs);
Constant read_tensor(const std::string& bytes, const std::string& file);

}  // namespace convoy::onnx_file
