#include "nets/onnx/graph.hpp"

#include <algorithm>
#include <set>

#include "nets/onnx/proto.hpp"

namespace convoy::onnx_file {
namespace {

constexpr std::int64_t kOldest = 7;
constexpr std::int64_t kNewest = 28;  // the newest whose operators were compared with those of before

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
  if (graph.input_dims[0] > 0) graph.batch = graph.input_dims[0];
  graph.input_dims.erase(graph.input_dims.begin());
  if (graph.input_dims.size() > 3)
    fail("{}: its input has {} extents after the batch; expected at most 3", file, graph.input_dims.size());
  if (std::ranges::count(graph.input_dims, 0) > 0) {
    fail(
        "{}: its input has an extent that is not fixed; save the model with fixed extents (only the batch may be free)",
        file);
  }
}

}  // namespace

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

Graph read_graph(const std::string& bytes, const std::string& file, const std::string& folder) {
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes)) fail("{}: the file is not an ONNX model", file);
  TensorReader tensors(file, folder);
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
    if (!graph.constants.emplace(tensor.name(), tensors.read(tensor)).second) {
      fail("{}: the model has two tensors of the name {}; expected names that come once", file, tensor.name());
    }
  }
  take_input(from, file, graph);
  if (from.output_size() != 1)
    fail("{}: the model has {} outputs; expected one, for the classes", file, from.output_size());
  graph.output = from.output(0).name();
  graph.nodes = needed(read_nodes(model, tensors, file), graph.output);
  return graph;
}

}  // namespace convoy::onnx_file
