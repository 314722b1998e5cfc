// The nodes of an ONNX model. Calls of the model's own functions are replaced by the functions' nodes.

#include <algorithm>

#include "nets/onnx/proto.hpp"

namespace convoy::onnx_file {
namespace {

constexpr int kDeepestCall = 16;
constexpr std::size_t kMostInlinedNodes = std::size_t{1} << 17;
constexpr std::size_t kMostInlinedBytes = std::size_t{1} << 28;  // a few functions could otherwise fill the memory
constexpr std::size_t kLongestPrefix = 64;

bool is_standard(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

/// The version of ONNX's own operators among the imports, or 0.
template <class Imports>
std::int64_t version_of(const Imports& imports) {
  std::int64_t version = 0;
  for (const auto& each : imports) {
    if (is_standard(each.domain())) version = each.version();
  }
  return version;
}

/// The names and attributes that hold inside of a function's body; in the model's graph all names stand for themselves.
struct Scope {
  std::map<std::string, std::string> names;       ///< the caller's names by those of the function
  std::string prefix;                             ///< stands before all other names
  std::string shown;                              ///< a readable prefix of the names of nodes, for errors
  std::map<std::string, Attribute> given;         ///< the attributes of the call
  const onnx::FunctionProto* function = nullptr;  ///< null in the model's graph

  std::string name_of(const std::string& name) const {
    if (name.empty()) return name;
    const auto found = names.find(name);
    return found == names.end() ? prefix + name : found->second;
  }
};

class Inliner {
 public:
  Inliner(const onnx::ModelProto& model, TensorReader& tensors, const std::string& file)
      : model_(model), tensors_(tensors), file_(file) {
    for (const onnx::FunctionProto& function : model.functions()) {
      if (is_standard(function.domain())) continue;
      functions_[function.domain() + "::" + function.name()] = &function;
    }
  }

  std::vector<Node> run() {
    for (const onnx::NodeProto& node : model_.graph().node()) take(node, {}, 0);
    return std::move(nodes_);
  }

 private:
  void take(const onnx::NodeProto& from, const Scope& scope, int depth) {
    if (scope.function != nullptr) {
      ++inlined_;
      inlined_bytes_ += from.ByteSizeLong() + kLongestPrefix;
      if (inlined_ > kMostInlinedNodes || inlined_bytes_ > kMostInlinedBytes) {
        fail("{}: its functions become more than {} nodes or {} bytes; export the model without functions", file_,
             kMostInlinedNodes, kMostInlinedBytes);
      }
    }
    Node node = plain(from, scope);
    const auto called = functions_.find(from.domain() + "::" + from.op_type());
    if (called == functions_.end()) {
      nodes_.push_back(std::move(node));
    } else {
      call(std::move(node), *called->second, depth);
    }
  }

  Node plain(const onnx::NodeProto& from, const Scope& scope) {
    Node node{.name = scope.shown + (from.name().empty() && from.output_size() > 0 ? from.output(0) : from.name()),
              .type = from.op_type(),
              .domain = is_standard(from.domain()) ? "" : from.domain(),
              .refused = {},
              .joined = {},
              .inputs = {},
              .outputs = {},
              .attributes = {}};
    if (from.output_size() == 0) fail("{}: node {} ({}) has no output", file_, node.name, node.type);
    for (const std::string& name : from.input()) node.inputs.push_back(scope.name_of(name));
    for (const std::string& name : from.output()) node.outputs.push_back(scope.name_of(name));
    for (const onnx::AttributeProto& attribute : from.attribute()) {
      if (!attribute.has_ref_attr_name() || attribute.ref_attr_name().empty()) {
        node.attributes[attribute.name()] = attribute_of(attribute, tensors_);
        continue;
      }
      const std::string& wanted = attribute.ref_attr_name();
      const auto found = scope.given.find(wanted);
      if (found != scope.given.end()) {
        node.attributes[attribute.name()] = found->second;
      } else if (scope.function == nullptr || std::ranges::count(scope.function->attribute(), wanted) == 0) {
        // An attribute with a default stands in a field that older versions of ONNX's library do not know.
        node.refused = fmt::format(
            "its attribute {} is the attribute {} of its function, which the call leaves out; "
            "export the model without functions",
            attribute.name(), wanted);
      }
    }
    return node;
  }

  void call(Node node, const onnx::FunctionProto& function, int depth) {
    const std::int64_t version = version_of(function.opset_import());
    if (depth >= kDeepestCall) {
      node.refused = fmt::format("its functions call one another more than {} deep", kDeepestCall);
    } else if (version != 0 && version != version_of(model_.opset_import())) {
      node.refused = fmt::format("its function has opset {}, and the model opset {}; expected the same", version,
                                 version_of(model_.opset_import()));
    } else if (static_cast<std::size_t>(function.input_size()) < node.inputs.size() ||
               static_cast<std::size_t>(function.output_size()) < node.outputs.size()) {
      node.refused =
          fmt::format("it gives {} inputs and takes {} outputs of a function of {} and {}", node.inputs.size(),
                      node.outputs.size(), function.input_size(), function.output_size());
    }
    if (!node.refused.empty()) {
      nodes_.push_back(std::move(node));
      return;
    }
    Scope inside{.names = {},
                 .prefix = fmt::format("function {}/", ++calls_),
                 .shown = node.name.substr(0, kLongestPrefix - 1) + "/",
                 .given = std::move(node.attributes),
                 .function = &function};
    for (int i = 0; i < function.input_size(); ++i) {
      const auto index = static_cast<std::size_t>(i);
      inside.names[function.input(i)] = index < node.inputs.size() ? node.inputs[index] : "";
    }
    for (int i = 0; i < function.output_size(); ++i) {
      const auto index = static_cast<std::size_t>(i);
      // An output that is an input at the same time would need a node that copies it.
      if (index < node.outputs.size() && !inside.names.emplace(function.output(i), node.outputs[index]).second) {
        nodes_.push_back({.name = node.name,
                          .type = "Identity",
                          .domain = {},
                          .refused = {},
                          .joined = {},
                          .inputs = {inside.names[function.output(i)]},
                          .outputs = {node.outputs[index]},
                          .attributes = {}});
      }
    }
    for (const onnx::NodeProto& each : function.node()) take(each, inside, depth + 1);
  }

  const onnx::ModelProto& model_;
  TensorReader& tensors_;
  const std::string& file_;
  std::map<std::string, const onnx::FunctionProto*> functions_;
  std::vector<Node> nodes_;
  std::size_t inlined_ = 0;
  std::size_t inlined_bytes_ = 0;
  int calls_ = 0;
};

}  // namespace

Attribute attribute_of(const onnx::AttributeProto& from, TensorReader& tensors) {
  Attribute to;
  switch (from.type()) {
    case onnx::AttributeProto::FLOAT:
      to.number = from.f();
      to.floats = {from.f()};
      break;
    case onnx::AttributeProto::INT:
      to.number = static_cast<double>(from.i());
      to.integers = {from.i()};
      break;
    case onnx::AttributeProto::FLOATS: to.floats = {from.floats().begin(), from.floats().end()}; break;
    case onnx::AttributeProto::INTS: to.integers = {from.ints().begin(), from.ints().end()}; break;
    case onnx::AttributeProto::STRING: to.text = from.s(); break;
    case onnx::AttributeProto::TENSOR: to.tensor = tensors.read(from.t()); break;
    default: break;  // attributes of other types belong to operators that Convoy refuses
  }
  return to;
}

std::vector<Node> read_nodes(const onnx::ModelProto& model, TensorReader& tensors, const std::string& file) {
  return Inliner(model, tensors, file).run();
}

double number(const Node& node, const std::string& attribute, double otherwise) {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() || !found->second.number ? otherwise : *found->second.number;
}

std::int64_t integer(const Node& node, const std::string& attribute, std::int64_t otherwise) {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() || found->second.integers.size() != 1 ? otherwise : found->second.integers[0];
}

std::vector<std::int64_t> integers(const Node& node, const std::string& attribute,
                                   std::vector<std::int64_t> otherwise) {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? otherwise : found->second.integers;
}

std::string text(const Node& node, const std::string& attribute, const std::string& otherwise) {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? otherwise : found->second.text;
}

}  // namespace convoy::onnx_file
