#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "nets/graph/net.hpp"
#include "nets/onnx/importer.hpp"

namespace convoy {
namespace onnx_file {

Importer::Importer(Graph graph, std::string file, const std::string& name)
    : graph_(std::move(graph)), file_(std::move(file)), builder_(name), folder_(graph_.opset) {
  join_activations(graph_);
  for (const Node& node : graph_.nodes) {
    for (const std::string& input : node.inputs) ++readers_[input];
  }
  for (const std::string& output : graph_.outputs) ++readers_[output];
  values_[graph_.input] = {.layer = "input", .dims = graph_.input_dims, .transposed_from = {}};
}

ImportedNet Importer::run() {
  for (const Node& node : graph_.nodes) take(node);
  if (!refused_.empty()) {
    const bool several = graph_.outputs.size() > 1;
    fail("{}: {}{}", file_, list_of_refused(refused_, graph_.nodes.size()),
         several ? fmt::format("\n{}", choice_of_outputs()) : "");
  }
  std::vector<Value> ends;
  for (const std::string& output : graph_.outputs) {
    const Value end = end_of(output);
    if (!ends.empty() && end.size() != ends[0].size()) {
      fail(
          "{}: all losses of a net compare with the same classes, but output {} has {} numbers, and output {} has {}. "
          "{}",
          file_, graph_.outputs[0], ends[0].size(), output, end.size(), choice_of_outputs());
    }
    // Some models return the numbers and their softmax.
    const bool again = std::ranges::any_of(ends, [&](const Value& other) { return other.layer == end.layer; });
    if (!again) ends.push_back(end);
  }
  imported_.softmax = ends[0].ended && !ends[0].logarithm;
  builder_.end(ends);
  if (ends.size() > 1) {
    imported_.notices.push_back(
        fmt::format("the main loss reads output {}, and {} reads another output with the weight 1; --set "
                    "side_loss.weight=0.3 changes a weight",
                    graph_.outputs[0], ends.size() == 2 ? "side_loss" : "each side loss"));
  }
  if (batch_statistics_) {
    imported_.notices.emplace_back(
        "the model is in its form for training; outside training, Convoy's batch norms use the running averages");
  }
  imported_.yaml = builder_.yaml();
  imported_.tensors = builder_.tensors();
  const Net net = parse_net(imported_.yaml, file_ + " as a net");
  cut(net);  // refuses what no stage or head can do
  imported_.yaml = to_yaml(net);
  return std::move(imported_);
}

std::string Importer::choice_of_outputs() const {
  return fmt::format("The model has the outputs {}; --output NAME imports one of them.", graph_.all_outputs);
}

Value Importer::end_of(const std::string& output) const {
  const auto last = values_.find(output);
  if (last == values_.end()) {
    fail("{}: no node computes the model's output {} from the images", file_, output);
  }
  const Value& value = last->second;
  if (value.layer == "input") fail("{}: the model's output {} is its input", file_, output);
  if (value.padded.any() || value.shuffle > 0 || !value.transposed_from.empty() ||
      (value.channels_last && !value.is_point())) {
    fail("{}: the model's output {} has the maps of layer {} in another form; expected one number for each class",
         file_, output, value.layer);
  }
  return value;
}

void Importer::take(const Node& node) {
  for (const std::string& output : node.outputs) {
    if (output.empty()) continue;
    const bool twice = values_.contains(output) || graph_.constants.contains(output) || unknown_.contains(output) ||
                       not_computed_.contains(output);
    if (twice) fail("{}: the model computes {} twice, again in node {} ({})", file_, output, node.name, node.type);
  }
  bool known = std::ranges::none_of(node.inputs, [&](const std::string& name) { return unknown_.contains(name); });
  if (known) {
    try {
      import(node);
      not_computed_.insert(node.outputs.begin() + 1, node.outputs.end());
      not_computed_.erase("");
    } catch (const Refused& refusal) {
      note_refused(node, refusal.reason);
      known = false;
    }
  } else if (!node.refused.empty()) {
    note_refused(node, node.refused);
  } else if (nothing_takes(node)) {
    note_refused(node, why_refused(node));
  }
  if (!known) unknown_.insert(node.outputs.begin(), node.outputs.end());
  unknown_.erase("");
}

void Importer::note_refused(const Node& node, const std::string& reason) {
  refused_.emplace_back(node, reason);
  refused_.back().first.attributes.clear();
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
  if (found == nullptr) {
    refuse("its {} must be a constant; {} depends on the images", what,
           has(node, input) ? node.inputs[input] : fmt::format("input number {}", input + 1));
  }
  return *found;
}

const std::vector<float>& Importer::floats(const Node& node, std::size_t input, const char* what) const {
  const Constant& found = constant(node, input, what);
  if (found.whole) refuse("its {} must hold floating-point numbers", what);
  return found.floats;
}

Inputs Importer::constants_of(const Node& node) const {
  Inputs inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(constant_if(node, i));
  return inputs;
}

Value Importer::passed(const Node& node, std::size_t input) const {
  const std::string name = has(node, input) ? node.inputs[input] : "";
  const auto found = values_.find(name);
  if (found == values_.end()) {
    if (not_computed_.contains(name)) {
      refuse(
          "its input {} is a further output of a node, such as the indices of a MaxPool; Convoy computes only the "
          "first output",
          name);
    }
    if (graph_.constants.contains(name)) {
      refuse("its input {} is a constant; expected values that are computed from the images", name);
    }
    refuse("its input {} is not computed from the images", name);
  }
  Value value = found->second;
  value.bare = value.bare && readers_.at(name) == 1;
  return value;
}

Value Importer::settled(Value found) {
  if (found.layer != "input") return found;
  builder_.settle_input(found.dims);
  found.maps = builder_.input();
  return found;
}

Value Importer::value(const Node& node, std::size_t input) {
  Value found = passed(node, input);
  if (found.padded.any()) {
    refuse("a Pad comes before it; padding with {} can be folded only into {} that follows", found.padded.filling,
           found.padded.filling == 0.0F ? "a Conv, or a MaxPool behind a Relu," : "a MaxPool");
  }
  if (found.shuffle > 0) {
    refuse(
        "a Transpose of groups of channels comes before it; expected a Reshape to channels, rows and columns behind "
        "it");
  }
  return settled(std::move(found));
}

void Importer::expect_maps(const Value& found) {
  if (found.dims.size() != 3) refuse("its input has {} extents after the batch; expected 3", found.dims.size());
  if (found.channels_last) refuse("the channels of its input come last; add a Transpose before it");
  const std::vector<int> own{found.maps.channels, found.maps.height, found.maps.width};
  if (found.dims != own) {
    refuse("its input of {} was reshaped from maps of {}; expected the maps unchanged", fmt::join(found.dims, "x"),
           fmt::join(own, "x"));
  }
}

Value Importer::maps(const Node& node, std::size_t input) {
  Value found = value(node, input);
  expect_maps(found);
  return found;
}

Value Importer::padded_maps(const Node& node) {
  Value found = settled(passed(node));
  expect_maps(found);
  return found;
}

std::vector<int> Importer::ints(const Node& node, const std::string& attribute, const std::vector<int>& otherwise) {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? otherwise : narrow(found->second.integers);
}

/// Converts to int. Values that are too large for any net, such as the end of a Slice "to the end", are clamped to a
/// limit low enough that sums of a few do not overflow.
std::vector<int> Importer::narrow(const std::vector<std::int64_t>& values) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 28;
  std::vector<int> all;
  for (const std::int64_t value : values) {
    if (value == kBatch) {
      refuse(
          "one of its numbers is the number of images, which is free in this model; export the model with a fixed "
          "number of images, such as 1");
    }
    all.push_back(static_cast<int>(std::clamp(value, -kLargest, kLargest)));
  }
  return all;
}

Extents Importer::extents_of(const Value& value) const {
  Extents all{graph_.batch};
  all.insert(all.end(), value.dims.begin(), value.dims.end());
  if (value.padded.any()) {  // only of maps whose channels come first
    all[2] += value.padded.sides[0] + value.padded.sides[2];
    all[3] += value.padded.sides[1] + value.padded.sides[3];
  }
  return all;
}

void Importer::give(const Node& node, Value value, std::size_t output) {
  constexpr int kLargest = 1 << 20;
  for (const int extent : value.dims) {
    if (extent < 1 || extent > kLargest)
      refuse("its output would be {}; each extent must be from 1 to {}", fmt::join(value.dims, "x"), kLargest);
  }
  value.bare = false;
  values_[node.outputs[output]] = std::move(value);
}

void Importer::give_bare(const Node& node, Value value) {
  give(node, std::move(value));
  values_[node.outputs[0]].bare = true;
}

bool Importer::fold(const Node& node) {
  bool any = node.type == "Constant";
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!has(node, i)) continue;
    any = true;
    if (constant_if(node, i) == nullptr) return false;
  }
  if (!any) return false;
  graph_.constants[node.outputs[0]] = folder_.fold(node, constants_of(node));
  return true;
}

const std::map<std::string, Importer::Import>& Importer::operators() {
  static const std::map<std::string, Import> all{{"Add", &Importer::add},
                                                 {"AveragePool", &Importer::pool},
                                                 {"BatchNormalization", &Importer::batch_norm},
                                                 {"Cast", &Importer::cast},
                                                 {"Concat", &Importer::concat},
                                                 {"Conv", &Importer::conv},
                                                 {"ConvTranspose", &Importer::transposed_conv},
                                                 {"Div", &Importer::divide},
                                                 {"Dropout", &Importer::dropout},
                                                 {"Expand", &Importer::expand},
                                                 {"Flatten", &Importer::reshape},
                                                 {"Gemm", &Importer::gemm},
                                                 {"GroupNormalization", &Importer::group_norm},
                                                 {"InstanceNormalization", &Importer::instance_norm},
                                                 {"LayerNormalization", &Importer::layer_norm},
                                                 {"PRelu", &Importer::prelu},
                                                 {"Resize", &Importer::resize},
                                                 {"Upsample", &Importer::resize},
                                                 {"GlobalAveragePool", &Importer::global_pool},
                                                 {"GlobalMaxPool", &Importer::global_pool},
                                                 {"Identity", &Importer::identity},
                                                 {"LRN", &Importer::response_norm},
                                                 {"LogSoftmax", &Importer::softmax},
                                                 {"MatMul", &Importer::matmul},
                                                 {"MaxPool", &Importer::pool},
                                                 {"Mul", &Importer::multiply},
                                                 {"Pad", &Importer::pad},
                                                 {"ReduceMax", &Importer::reduce},
                                                 {"ReduceMean", &Importer::reduce},
                                                 {"Reshape", &Importer::reshape},
                                                 {"Shape", &Importer::shape},
                                                 {"Slice", &Importer::slice},
                                                 {"Softmax", &Importer::softmax},
                                                 {"Split", &Importer::split},
                                                 {"Squeeze", &Importer::reshape},
                                                 {"Sub", &Importer::subtract},
                                                 {"Sum", &Importer::add},
                                                 {"Transpose", &Importer::transpose},
                                                 {"Unsqueeze", &Importer::reshape}};
  return all;
}

bool Importer::nothing_takes(const Node& node) {
  return node.domain.empty() && !operators().contains(node.type) && !is_activation(node.type) &&
         !Folder::folds(node.type);
}

void Importer::import(const Node& node) {
  if (!node.refused.empty()) throw Refused{node.refused};
  if (!node.domain.empty()) {
    refuse(
        "the operator belongs to the domain {}; only ONNX's own operators, and functions that the model defines, are "
        "known",
        node.domain);
  }
  if (fold(node)) return;
  static const std::set<std::string> forms{"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"};
  for (const std::string& input : node.inputs) {
    const auto read = values_.find(input);
    if (read != values_.end() && read->second.ended && !forms.contains(node.type))
      refuse("it follows a softmax; in a net the softmax comes last");
  }
  if (is_activation(node.type)) return activation(node);
  const auto found = operators().find(node.type);
  if (found == operators().end()) throw Refused{why_refused(node)};
  (this->*found->second)(node);
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

ImportedNet imported_from(const std::string& bytes, const std::string& file, const std::string& folder,
                          const std::string& name, const std::vector<std::string>& outputs) {
  return onnx_file::Importer(onnx_file::read_graph(bytes, file, folder, outputs), file, name).run();
}

}  // namespace

ImportedNet parse_onnx(const std::string& bytes, const std::string& file, const std::string& name,
                       const std::vector<std::string>& outputs) {
  return imported_from(bytes, file, "", name, outputs);
}

ImportedNet import_onnx(const std::string& file, const std::string& name, const std::vector<std::string>& outputs) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return imported_from(bytes_of_file(file), file, folder.empty() ? "." : folder, name, outputs);
}

NamedTensor read_onnx_tensor(const std::string& file) {
  onnx_file::Constant constant = onnx_file::read_tensor(bytes_of_file(file), file);
  return {file, std::move(constant.dims), std::move(constant.floats)};
}

}  // namespace convoy
