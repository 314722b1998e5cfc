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

/// "logits (Nx10)"; an extent that is not fixed is shown by its name.
std::string shown_output(const onnx::ValueInfoProto& output) {
  std::string extents;
  for (const auto& extent : output.type().tensor_type().shape().dim()) {
    const std::string one = extent.has_dim_value() ? std::to_string(extent.dim_value()) : extent.dim_param();
    extents += (extents.empty() ? "" : "x") + (one.empty() ? "?" : one);
  }
  return extents.empty() ? output.name() : fmt::format("{} ({})", output.name(), extents);
}

void take_outputs(const onnx::GraphProto& from, const std::vector<std::string>& wanted, const std::string& file,
                  Graph& graph) {
  constexpr int kShown = 20;
  std::set<std::string> names;
  for (int i = 0; i < from.output_size(); ++i) {
    const std::string& name = from.output(i).name();
    if (!names.insert(name).second) fail("{}: the model has two outputs of the name {}", file, name);
    if (wanted.empty()) graph.outputs.push_back(name);
    if (i < kShown) graph.all_outputs += (i > 0 ? ", " : "") + shown_output(from.output(i));
  }
  if (names.empty()) fail("{}: the model has no output; expected one, for the classes", file);
  if (from.output_size() > kShown) graph.all_outputs += fmt::format(" and {} more", from.output_size() - kShown);
  for (const std::string& name : wanted) {
    if (!names.contains(name)) {
      fail("{}: the model has no output {}; choose among {}", file, name, graph.all_outputs);
    }
    if (std::ranges::count(wanted, name) > 1) fail("{}: output {} is to be imported twice; name it once", file, name);
    graph.outputs.push_back(name);
  }
  constexpr std::size_t kMost = 100;
  if (graph.outputs.size() > kMost) {
    fail("{}: the model has {} outputs, but a net at most {} losses; choose outputs with --output NAME: {}", file,
         graph.outputs.size(), kMost, graph.all_outputs);
  }
}

}  // namespace

std::vector<Node> needed(std::vector<Node> nodes, const std::vector<std::string>& outputs) {
  std::set<std::string> wanted(outputs.begin(), outputs.end());
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

Graph read_graph(const std::string& bytes, const std::string& file, const std::string& folder,
                 const std::vector<std::string>& outputs) {
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
  take_outputs(from, outputs, file, graph);
  graph.nodes = needed(read_nodes(model, tensors, file), graph.outputs);
  return graph;
}

}  // namespace convoy::onnx_file
