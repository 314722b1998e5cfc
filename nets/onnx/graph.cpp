#include "nets/onnx/graph.hpp"

// Debian's headers of ONNX need the macros with which the library was built.
#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "core/error.hpp"
#include "core/number_type.hpp"

namespace convoy::onnx_file {
namespace {

constexpr std::int64_t kMostTensorValues = std::int64_t{1} << 30;
constexpr std::int64_t kOldest = 7;
constexpr std::int64_t kNewest = 18;

/// The values of a tensor, from its raw data or else from `field`, the field of its type.
template <class T, class Field>
std::vector<T> values_of(const onnx::TensorProto& tensor, const Field& field) {
  if (!tensor.has_raw_data()) return {field.begin(), field.end()};
  std::vector<T> values(tensor.raw_data().size() / sizeof(T));
  std::memcpy(values.data(), tensor.raw_data().data(), values.size() * sizeof(T));
  return values;
}

Constant constant_of(const onnx::TensorProto& tensor, const std::string& file) {
  Constant constant;
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.dims()) {
    if (extent < 0 || extent > kMostTensorValues || (extent > 0 && count > kMostTensorValues / extent)) {
      fail("{}: tensor {} has an extent of {}, or more than {} values", file, tensor.name(), extent, kMostTensorValues);
    }
    count *= extent;
    constant.dims.push_back(extent);
  }
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    fail("{}: tensor {} has its data in another file; save the model as one file with its weights", file,
         tensor.name());
  }
  const auto widen = [](const auto& values) { return std::vector<std::int64_t>(values.begin(), values.end()); };
  switch (tensor.data_type()) {
    case onnx::TensorProto::FLOAT: constant.floats = values_of<float>(tensor, tensor.float_data()); break;
    case onnx::TensorProto::DOUBLE:
      for (const double value : values_of<double>(tensor, tensor.double_data())) {
        constant.floats.push_back(static_cast<float>(value));
      }
      break;
    case onnx::TensorProto::FLOAT16: {
      const auto halves = values_of<std::uint16_t>(tensor, tensor.int32_data());
      constant.floats.resize(halves.size());
      decode(NumberType::fp16, reinterpret_cast<const std::byte*>(halves.data()), constant.floats);
      break;
    }
    case onnx::TensorProto::INT64: constant.integers = values_of<std::int64_t>(tensor, tensor.int64_data()); break;
    case onnx::TensorProto::INT32:
      constant.integers = widen(values_of<std::int32_t>(tensor, tensor.int32_data()));
      break;
    default:
      fail("{}: tensor {} is of type {}; expected float, double, float16 or integers", file, tensor.name(),
           onnx::TensorProto::DataType_Name(tensor.data_type()));
  }
  if (static_cast<std::int64_t>(constant.size()) != count) {
    fail("{}: tensor {} holds {} values; its extents need {}", file, tensor.name(), constant.size(), count);
  }
  return constant;
}

Attribute attribute_of(const onnx::AttributeProto& from, const std::string& file) {
  Attribute to;
  switch (from.type()) {
    case onnx::AttributeProto::FLOAT: to.number = from.f(); break;
    case onnx::AttributeProto::INT:
      to.number = static_cast<double>(from.i());
      to.integers = {from.i()};
      break;
    case onnx::AttributeProto::INTS: to.integers = {from.ints().begin(), from.ints().end()}; break;
    case onnx::AttributeProto::STRING: to.text = from.s(); break;
    case onnx::AttributeProto::TENSOR: to.tensor = constant_of(from.t(), file); break;
    default: break;  // attributes of other types belong to operators that Convoy refuses
  }
  return to;
}

Node node_of(const onnx::NodeProto& from, const std::string& file) {
  Node node{.name = from.name(),
            .type = from.op_type(),
            .inputs = {from.input().begin(), from.input().end()},
            .outputs = {from.output().begin(), from.output().end()},
            .attributes = {}};
  if (node.outputs.empty()) fail("{}: node {} ({}) has no output", file, node.name, node.type);
  if (node.name.empty()) node.name = node.outputs[0];
  if (!from.domain().empty() && from.domain() != "ai.onnx") {
    fail("{}: node {}: operator {} belongs to the domain {}; only ONNX's own operators are known", file, node.name,
         node.type, from.domain());
  }
  for (const onnx::AttributeProto& attribute : from.attribute()) {
    node.attributes[attribute.name()] = attribute_of(attribute, file);
  }
  return node;
}

/// The nodes that the output depends on.
std::vector<Node> needed(std::vector<Node> nodes, const std::string& output) {
  std::set<std::string> wanted{output};
  std::vector<bool> keep(nodes.size(), false);
  for (std::size_t i = nodes.size(); i-- > 0;) {
    keep[i] = std::ranges::any_of(nodes[i].outputs, [&](const std::string& name) { return wanted.contains(name); });
    if (keep[i]) wanted.insert(nodes[i].inputs.begin(), nodes[i].inputs.end());
  }
  std::vector<Node> kept;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (keep[i]) kept.push_back(std::move(nodes[i]));
  }
  return kept;
}

void take_input(const onnx::GraphProto& from, const std::string& file, Graph& graph) {
  for (const onnx::ValueInfoProto& input : from.input()) {
    if (graph.constants.contains(input.name())) continue;
    if (!graph.input.empty())
      fail("{}: the model has two inputs, {} and {}; expected one, for images", file, graph.input, input.name());
    graph.input = input.name();
    for (const auto& extent : input.type().tensor_type().shape().dim()) {
      const std::int64_t value = extent.has_dim_value() ? extent.dim_value() : 0;
      if (value < 0 || value > (1 << 20)) fail("{}: input {} has an extent of {}", file, graph.input, value);
      graph.input_dims.push_back(static_cast<int>(value));
    }
  }
  if (graph.input_dims.size() < 2)
    fail("{}: the model has no input for images; expected one input of a batch and fixed extents", file);
  graph.input_dims.erase(graph.input_dims.begin());
  if (graph.input_dims.size() > 3)
    fail("{}: its input has {} extents after the batch; expected at most 3", file, graph.input_dims.size());
  if (std::ranges::count(graph.input_dims, 0) > 0) {
    fail(
        "{}: its input has an extent that is not fixed; save the model with fixed extents (only the batch may be free)",
        file);
  }
}

template <class Message>
Message parsed(const std::string& bytes, const std::string& file, const char* what) {
  Message message;
  if (!message.ParseFromString(bytes)) fail("{}: the file is not an {}", file, what);
  return message;
}

}  // namespace

Graph read_graph(const std::string& bytes, const std::string& file) {
  const auto model = parsed<onnx::ModelProto>(bytes, file, "ONNX model");
  Graph graph;
  for (const auto& set : model.opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx") graph.opset = set.version();
  }
  if (graph.opset < kOldest || graph.opset > kNewest) {
    fail("{}: the model has opset {}; expected {} to {}, so convert it with ONNX's version converter", file,
         graph.opset, kOldest, kNewest);
  }
  const onnx::GraphProto& from = model.graph();
  for (const onnx::TensorProto& tensor : from.initializer()) {
    if (!graph.constants.emplace(tensor.name(), constant_of(tensor, file)).second) {
      fail("{}: the model has two tensors of the name {}; expected names that come once", file, tensor.name());
    }
  }
  take_input(from, file, graph);
  if (from.output_size() != 1)
    fail("{}: the model has {} outputs; expected one, for the classes", file, from.output_size());
  graph.output = from.output(0).name();
  for (const onnx::NodeProto& node : from.node()) graph.nodes.push_back(node_of(node, file));
  graph.nodes = needed(std::move(graph.nodes), graph.output);
  return graph;
}

Constant read_tensor(const std::string& bytes, const std::string& file) {
  return constant_of(parsed<onnx::TensorProto>(bytes, file, "ONNX tensor"), file);
}

}  // namespace convoy::onnx_file
