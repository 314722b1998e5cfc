// Nodes of graphs that are exported.
#pragma once

// Debian's headers of ONNX need the macros with which the library was built.
#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace convoy {

/// Appends a node with one output, which has the node's name.
inline onnx::NodeProto& add_node(onnx::GraphProto& graph, const std::string& type, const std::string& name,
                                 const std::vector<std::string>& inputs) {
  onnx::NodeProto& made = *graph.add_node();
  made.set_op_type(type);
  made.set_name(name);
  made.add_output(name);
  for (const std::string& input : inputs) made.add_input(input);
  return made;
}

}  // namespace convoy
