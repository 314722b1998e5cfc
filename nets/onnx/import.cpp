#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "nets/graph/net.hpp"
#include "nets/onnx/importer.hpp"

namespace convoy {
namespace onnx_file {

ImportedNet Importer::run() {
  for (const Node& node : graph_.nodes) import(node);
  const auto last = values_.find(graph_.output);
  if (last == values_.end()) fail("{}: no node computes the model's output {}", file_, graph_.output);
  if (last->second.layer == "input") fail("{}: the model's output is its input", file_);
  builder_.end(last->second);
  imported_.yaml = builder_.yaml();
  imported_.tensors = builder_.tensors();
  imported_.yaml = to_yaml(parse_net(imported_.yaml, file_ + " as a net"));
  return std::move(imported_);
}

bool Importer::has(const Node& node, std::size_t input) {
  return input < node.inputs.size() && !node.inputs[input].empty();
}

const Constant* Importer::constant_if(const Node& node, std::size_t input) const {
  if (!has(node, input)) return nullptr;
  const auto found = graph_.constants.find(node.inputs[input]);
  return found == graph_.constants.end() ? nullptr : &found->second;
}

const Constant& Importer::constant(const Node& node, std::size_t input, const char* what) const {
  const Constant* found = constant_if(node, input);
  if (found == nullptr) refuse(node, "its {} must be a constant", what);
  return *found;
}

const std::vector<float>& Importer::floats(const Node& node, std::size_t input, const char* what) const {
  const Constant& found = constant(node, input, what);
  if (found.floats.empty()) refuse(node, "its {} must hold floating-point numbers", what);
  return found.floats;
}

const Value& Importer::value(const Node& node, std::size_t input) {
  const auto found = has(node, input) ? values_.find(node.inputs[input]) : values_.end();
  if (found == values_.end()) {
    refuse(node, "its input {} is not computed from the images", has(node, input) ? node.inputs[input] : "");
  }
  if (found->second.layer == "input") builder_.settle_input(found->second.dims);
  return found->second;
}

const Value& Importer::maps(const Node& node, std::size_t input) {
  const Value& found = value(node, input);
  if (found.dims.size() != 3) refuse(node, "its input has {} extents after the batch; expected 3", found.dims.size());
  if (found.channels_last) refuse(node, "the channels of its input come last; add a Transpose before it");
  return found;
}

double Importer::number(const Node& node, const std::string& attribute, double otherwise) const {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() || !found->second.number ? otherwise : *found->second.number;
}

std::vector<int> Importer::integers(const Node& node, const std::string& attribute, std::vector<int> otherwise) const {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? otherwise : narrow(found->second.integers);
}

/// Converts to int. Values that are too large for any net, such as the end of a Slice "to the end", are clamped to a
/// limit low enough that sums of a few do not overflow.
std::vector<int> Importer::narrow(const std::vector<std::int64_t>& values) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 28;
  std::vector<int> all;
  for (const std::int64_t value : values) all.push_back(static_cast<int>(std::clamp(value, -kLargest, kLargest)));
  return all;
}

void Importer::give(const Node& node, Value value) {
  constexpr int kLargest = 1 << 20;
  for (const int extent : value.dims) {
    if (extent < 1 || extent > kLargest)
      refuse(node, "its output would be {}; each extent must be from 1 to {}", fmt::join(value.dims, "x"), kLargest);
  }
  value.bare = false;
  values_[node.outputs[0]] = std::move(value);
}

void Importer::import(const Node& node) {
  using Import = void (Importer::*)(const Node&);
  static const std::map<std::string, Import> operators{{"Add", &Importer::add},
                                                       {"AveragePool", &Importer::pool},
                                                       {"BatchNormalization", &Importer::batch_norm},
                                                       {"Concat", &Importer::concat},
                                                       {"Constant", &Importer::make_constant},
                                                       {"ConstantOfShape", &Importer::constant_of_shape},
                                                       {"Conv", &Importer::conv},
                                                       {"Dropout", &Importer::dropout},
                                                       {"Flatten", &Importer::flatten},
                                                       {"Gemm", &Importer::gemm},
                                                       {"GlobalAveragePool", &Importer::global_average_pool},
                                                       {"Identity", &Importer::identity},
                                                       {"LRN", &Importer::response_norm},
                                                       {"LeakyRelu", &Importer::activation},
                                                       {"LogSoftmax", &Importer::softmax},
                                                       {"MatMul", &Importer::matmul},
                                                       {"MaxPool", &Importer::pool},
                                                       {"Mul", &Importer::multiply},
                                                       {"Pad", &Importer::pad},
                                                       {"Relu", &Importer::activation},
                                                       {"Reshape", &Importer::reshape},
                                                       {"Sigmoid", &Importer::activation},
                                                       {"Slice", &Importer::slice},
                                                       {"Softmax", &Importer::softmax},
                                                       {"Squeeze", &Importer::reshape},
                                                       {"Sum", &Importer::add},
                                                       {"Tanh", &Importer::activation},
                                                       {"Transpose", &Importer::transpose},
                                                       {"Unsqueeze", &Importer::reshape}};
  const auto found = operators.find(node.type);
  if (found == operators.end()) {
    std::string known;
    for (const auto& [name, ignored] : operators) known += (known.empty() ? "" : ", ") + name;
    refuse(node, "no layer of Convoy does this; known operators: {}", known);
  }
  for (const std::string& input : node.inputs) {
    const auto read = values_.find(input);
    if (read != values_.end() && read->second.ended)
      refuse(node, "it follows a softmax; in a net the softmax comes last");
  }
  (this->*found->second)(node);
}

void Importer::give_bare(const Node& node, Value value) {
  give(node, std::move(value));
  values_[node.outputs[0]].bare = true;
}

}  // namespace onnx_file

namespace {

std::string bytes_of_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) fail("{}: the file cannot be read; expected an ONNX file", file);
  constexpr std::streamoff kLargest = std::streamoff{1} << 31;  // limit of protobuf
  const std::streamoff size = stream.tellg();
  if (size < 0 || size >= kLargest) fail("{}: the file is not an ONNX file; they are smaller than 2 GiB", file);
  std::string bytes(static_cast<std::size_t>(size), '\0');
  stream.seekg(0);
  if (!stream.read(bytes.data(), size)) fail("{}: the file cannot be read to its end", file);
  return bytes;
}

}  // namespace

ImportedNet parse_onnx(const std::string& bytes, const std::string& file, const std::string& name) {
  return onnx_file::Importer(onnx_file::read_graph(bytes, file), file, name).run();
}

ImportedNet import_onnx(const std::string& file, const std::string& name) {
  return parse_onnx(bytes_of_file(file), file, name);
}

NamedTensor read_onnx_tensor(const std::string& file) {
  onnx_file::Constant constant = onnx_file::read_tensor(bytes_of_file(file), file);
  return {file, std::move(constant.dims), std::move(constant.floats)};
}

}  // namespace convoy
