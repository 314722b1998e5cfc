#include "nets/onnx/ensemble.hpp"

#include "nets/onnx/new_node.hpp"
#include "nets/onnx/onnx.hpp"

namespace convoy {
namespace {

const char* output_name(Combination how) {
  switch (how) {
    case Combination::probabilities: return "probabilities";
    case Combination::logits: return "logits";
    case Combination::votes: return "votes";
  }
  return "";
}

/// Joins the models of the parts: their nodes and constants get a prefix each, and read the same input.
class EnsembleWriter {
 public:
  EnsembleWriter(const std::vector<EnsemblePart>& parts, Combination how) : parts_(parts), how_(how) {}

  std::string run() {
    for (std::size_t i = 0; i < parts_.size(); ++i) add(parts_[i], fmt::format("member{}.", i + 1));
    combine();
    auto& input = *graph_.mutable_input(0);
    input.set_doc_string("pixels / 255");
    graph_.set_name("ensemble");
    *model_.mutable_graph() = std::move(graph_);
    std::string bytes;
    if (!model_.SerializeToString(&bytes)) fail("the ensemble is too large for an ONNX file, whose limit is 2 GiB");
    return bytes;
  }

 private:
  void add(const EnsemblePart& part, const std::string& prefix) {
    onnx::ModelProto one;
    invariant(one.ParseFromString(to_onnx(part.net, part.tensors)), "a model that was just written can be read");
    onnx::GraphProto& graph = *one.mutable_graph();
    const std::string input = graph.input(0).name();
    if (graph_.input_size() == 0) {
      *graph_.add_input() = graph.input(0);
      *graph_.add_output() = graph.output(0);
      model_.set_ir_version(one.ir_version());
      model_.set_producer_name(one.producer_name());
      *model_.add_opset_import() = one.opset_import(0);
    }
    normalise(part.net, input, prefix);
    const auto renamed = [&](const std::string& name) {
      if (name.empty()) return name;  // an input that is left out
      return name == input ? prefix + "normalised" : prefix + name;
    };
    for (onnx::TensorProto& constant : *graph.mutable_initializer()) {
      constant.set_name(renamed(constant.name()));
      graph_.add_initializer()->Swap(&constant);
    }
    for (onnx::NodeProto& node : *graph.mutable_node()) {
      node.set_name(prefix + node.name());
      for (std::string& name : *node.mutable_input()) name = renamed(name);
      for (std::string& name : *node.mutable_output()) name = renamed(name);
      graph_.add_node()->Swap(&node);
    }
    outputs_.push_back(renamed(graph.output(0).name()));
  }

  void normalise(const Net& net, const std::string& input, const std::string& prefix) {
    onnx::TensorProto& mean = constant(prefix + "mean", onnx::TensorProto::FLOAT);
    onnx::TensorProto& deviation = constant(prefix + "deviation", onnx::TensorProto::FLOAT);
    for (onnx::TensorProto* each : {&mean, &deviation}) {
      for (const int extent : {1, net.input.channels, 1, 1}) each->add_dims(extent);
    }
    invariant(static_cast<int>(net.scales.size()) == net.input.channels, "each part has scales");
    for (const ChannelScale& scale : net.scales) {
      mean.add_float_data(static_cast<float>(scale.mean));
      deviation.add_float_data(static_cast<float>(scale.deviation));
    }
    node("Sub", prefix + "centred", {input, mean.name()});
    node("Div", prefix + "normalised", {prefix + "centred", deviation.name()});
  }

  void combine() {
    const std::string result = output_name(how_);
    graph_.mutable_output(0)->set_name(result);
    if (how_ == Combination::logits) {
      node("Mean", result, outputs_);
      return;
    }
    std::vector<std::string> probabilities;
    for (const std::string& output : outputs_) {
      onnx::NodeProto& softmax = node("Softmax", output + ".probabilities", {output});
      set(softmax, "axis", 1);
      probabilities.push_back(softmax.name());
    }
    if (how_ == Combination::probabilities) {
      node("Mean", result, probabilities);
    } else {
      vote(result, probabilities);
    }
  }

  void vote(const std::string& result, const std::vector<std::string>& probabilities) {
    constant("classes", onnx::TensorProto::INT64).add_int64_data(parts_.front().net.classes);
    onnx::TensorProto& values = constant("no and yes", onnx::TensorProto::FLOAT);
    values.add_dims(2);
    for (const float each : {0.0F, 1.0F}) values.add_float_data(each);
    constant("all votes", onnx::TensorProto::FLOAT).add_float_data(static_cast<float>(outputs_.size() + 1));
    node("Mean", "tie-break", probabilities);
    std::vector<std::string> votes{"tie-break"};
    for (const std::string& output : outputs_) {
      onnx::NodeProto& largest = node("ArgMax", output + ".class", {output});
      set(largest, "axis", 1);
      set(largest, "keepdims", 0);
      set(node("OneHot", output + ".vote", {output + ".class", "classes", "no and yes"}), "axis", 1);
      votes.push_back(output + ".vote");
    }
    node("Sum", "sum of votes", votes);
    node("Div", result, {"sum of votes", "all votes"});
  }

  onnx::NodeProto& node(const std::string& type, const std::string& name, const std::vector<std::string>& inputs) {
    return add_node(graph_, type, name, inputs);
  }
  static void set(onnx::NodeProto& node, const std::string& name, int value) {
    onnx::AttributeProto& made = *node.add_attribute();
    made.set_name(name);
    made.set_type(onnx::AttributeProto::INT);
    made.set_i(value);
  }
  onnx::TensorProto& constant(const std::string& name, onnx::TensorProto::DataType type) {
    onnx::TensorProto& made = *graph_.add_initializer();
    made.set_name(name);
    made.set_data_type(type);
    return made;
  }

  const std::vector<EnsemblePart>& parts_;
  Combination how_;
  onnx::ModelProto model_;
  onnx::GraphProto graph_;
  std::vector<std::string> outputs_;  ///< of each part, before its loss
};

}  // namespace

std::string ensemble_to_onnx(const std::vector<EnsemblePart>& parts, Combination how) {
  return EnsembleWriter(parts, how).run();
}

}  // namespace convoy
