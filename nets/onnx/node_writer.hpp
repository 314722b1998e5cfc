// The parts of nodes of a graph that is exported: attributes and constants.
#pragma once

#include <string>
#include <vector>

#include "nets/onnx/new_node.hpp"

namespace convoy::onnx_file {

/// Appends nodes and constants to a graph. A node and its output have one name.
class NodeWriter {
 protected:
  onnx::NodeProto& node(const std::string& type, const std::string& name, const std::vector<std::string>& inputs) {
    return add_node(graph_, type, name, inputs);
  }

  static onnx::AttributeProto& attribute(onnx::NodeProto& node, const std::string& name,
                                         onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto& made = *node.add_attribute();
    made.set_name(name);
    made.set_type(type);
    return made;
  }
  static void set(onnx::NodeProto& node, const std::string& name, float value) {
    attribute(node, name, onnx::AttributeProto::FLOAT).set_f(value);
  }
  static void set(onnx::NodeProto& node, const std::string& name, const char* value) {
    attribute(node, name, onnx::AttributeProto::STRING).set_s(value);
  }
  static void set(onnx::NodeProto& node, const std::string& name, int value) {
    attribute(node, name, onnx::AttributeProto::INT).set_i(value);
  }
  static void set(onnx::NodeProto& node, const std::string& name, const std::vector<int>& values) {
    onnx::AttributeProto& made = attribute(node, name, onnx::AttributeProto::INTS);
    for (const int value : values) made.add_ints(value);
  }
  template <class Window>
  static void set_window(onnx::NodeProto& node, const Window& window) {
    set(node, "kernel_shape", std::vector<int>{window.kernel_h, window.kernel_w});
    set(node, "strides", std::vector<int>{window.stride_h, window.stride_w});
    set(node, "pads", std::vector<int>{window.pad.top, window.pad.left, window.pad.bottom, window.pad.right});
  }

  onnx::TensorProto& constant(const std::string& name, onnx::TensorProto::DataType type) {
    onnx::TensorProto& made = *graph_.add_initializer();
    made.set_name(name);
    made.set_data_type(type);
    return made;
  }

  /// Adds a number as a constant and returns its name.
  std::string number(const std::string& name, float value) {
    constant(name, onnx::TensorProto::FLOAT).add_float_data(value);
    return name;
  }
  /// Adds a list of integers as a constant and returns its name.
  std::string integers(const std::string& name, const std::vector<int>& values) {
    onnx::TensorProto& made = constant(name, onnx::TensorProto::INT64);
    made.add_dims(static_cast<std::int64_t>(values.size()));
    for (const int each : values) made.add_int64_data(each);
    return name;
  }
  /// Adds a list of `count` equal numbers as a constant and returns its name.
  std::string equal(const std::string& name, float value, int count) {
    onnx::TensorProto& made = constant(name, onnx::TensorProto::FLOAT);
    made.add_dims(count);
    for (int i = 0; i < count; ++i) made.add_float_data(value);
    return name;
  }

  onnx::GraphProto graph_;
};

}  // namespace convoy::onnx_file
