#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "nets/graph/net.hpp"
#include "nets/onnx/graph.hpp"
#include "nets/onnx/new_node.hpp"
#include "nets/onnx/onnx.hpp"

namespace convoy {
namespace {

constexpr int kOpset = 13;
constexpr int kFormat = 7;  // file format (IR version) that goes with opset 13

/// Writes the layers that the main head depends on, each as one or two nodes.
class Exporter {
 public:
  Exporter(const Net& net, const std::vector<NamedTensor>& tensors) : net_(net) {
    for (const NamedTensor& tensor : tensors) tensors_[tensor.name] = &tensor;
    model_.set_ir_version(kFormat);
    model_.set_producer_name("Convoy");
    model_.add_opset_import()->set_version(kOpset);
    graph_.set_name(net.name);
  }

  std::string run() {
    describe(*graph_.add_input(), "input", {net_.input.channels, net_.input.height, net_.input.width});
    const std::vector<bool> needed = needed_layers();
    for (std::size_t i = 0; i < net_.layers.size(); ++i) {
      if (needed[i]) write(net_.layers[i]);
    }
    const int last = net_.layers.back().inputs[0];
    describe(*graph_.add_output(), as_list(last, values_.at(last)), {net_.classes});
    *model_.mutable_graph() = graph_;
    std::string bytes;
    if (!model_.SerializeToString(&bytes))
      fail("net {}: it is too large for an ONNX file, whose limit is 2 GiB", net_.name);
    return bytes;
  }

 private:
  /// Marks the layers that the net's last layer, the main loss, depends on, without the loss itself.
  std::vector<bool> needed_layers() const {
    std::vector<bool> needed(net_.layers.size(), false);
    needed.back() = true;
    for (std::size_t i = net_.layers.size(); i-- > 0;) {
      if (!needed[i]) continue;
      for (const int input : net_.layers[i].inputs) {
        if (input != kNetInput) needed[static_cast<std::size_t>(input)] = true;
      }
    }
    needed.back() = false;
    return needed;
  }

  static void describe(onnx::ValueInfoProto& value, const std::string& name, const std::vector<int>& dims) {
    value.set_name(name);
    auto& tensor = *value.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(onnx::TensorProto::FLOAT);
    tensor.mutable_shape()->add_dim()->set_dim_param("N");
    for (const int extent : dims) tensor.mutable_shape()->add_dim()->set_dim_value(extent);
  }

  // ---- parts of nodes ---------------------------------------------------------------------------------------------

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

  std::string tensor(const std::string& name) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) fail("net {}: the weights have no tensor {}", net_.name, name);
    onnx::TensorProto& made = constant(name, onnx::TensorProto::FLOAT);
    for (const std::int64_t extent : found->second->dims) made.add_dims(extent);
    const std::vector<float>& values = found->second->values;
    made.set_raw_data(values.data(), values.size() * sizeof(float));
    return name;
  }

  /// The same for one number for each channel, with the extents (channels, 1, 1).
  std::string channel_numbers(const std::string& name) {
    tensor(name);
    onnx::TensorProto& made = *graph_.mutable_initializer(graph_.initializer_size() - 1);
    for (int extent = 0; extent < 2; ++extent) made.add_dims(1);
    return name;
  }

  bool is_list(int layer) const {
    if (layer == kNetInput) return false;
    const Layer& made = net_.layers[static_cast<std::size_t>(layer)];
    if (std::holds_alternative<Dense>(made.spec) || std::holds_alternative<Flatten>(made.spec)) return true;
    const bool passes = std::holds_alternative<Activation>(made.spec) || std::holds_alternative<Dropout>(made.spec);
    return passes && is_list(made.inputs[0]);
  }

  /// Returns the name of the layer's value with the extents (batch, values); adds a Flatten node if needed.
  std::string as_list(int layer, const std::string& value) {
    if (is_list(layer)) return value;
    node("Flatten", value + ".list", {value});
    return value + ".list";
  }

  // ---- layers -----------------------------------------------------------------------------------------------------

  void write(const Layer& layer) {
    std::vector<std::string> inputs;
    for (const int input : layer.inputs) inputs.push_back(input == kNetInput ? "input" : values_.at(input));
    std::visit([&](const auto& spec) { write(layer, spec, inputs); }, layer.spec);
    values_[static_cast<int>(&layer - net_.layers.data())] = layer.name;
  }

  using Inputs = std::vector<std::string>;

  void write(const Layer& layer, const Convolution& conv, Inputs inputs) {
    inputs.push_back(tensor(layer.name + ".weight"));
    if (conv.bias) inputs.push_back(tensor(layer.name + ".bias"));
    onnx::NodeProto& made = node("Conv", layer.name, inputs);
    set_window(made, conv);
    if (conv.dilated()) set(made, "dilations", std::vector<int>{conv.dilation_h, conv.dilation_w});
    if (conv.groups > 1) set(made, "group", conv.groups);
  }
  void write(const Layer& layer, const Activation& activation, const Inputs& inputs) {
    using Kind = Activation::Kind;
    const auto [kind, alpha, beta] = activation;
    switch (kind) {
      case Kind::relu: node("Relu", layer.name, inputs); break;
      case Kind::sigmoid: node("Sigmoid", layer.name, inputs); break;
      case Kind::tanh: node("Tanh", layer.name, inputs); break;
      case Kind::leaky_relu: set(node("LeakyRelu", layer.name, inputs), "alpha", alpha); break;
      case Kind::clip: write_clip(layer.name, alpha, beta, inputs); break;
      case Kind::hard_sigmoid: {
        onnx::NodeProto& made = node("HardSigmoid", layer.name, inputs);
        set(made, "alpha", alpha);
        set(made, "beta", beta);
        break;
      }
      case Kind::elu: set(node("Elu", layer.name, inputs), "alpha", alpha); break;
      case Kind::selu: node("Selu", layer.name, inputs); break;
      case Kind::softplus: node("Softplus", layer.name, inputs); break;
      case Kind::silu: write_product(layer.name, inputs[0], "Sigmoid"); break;
      case Kind::hard_swish: write_hard_swish(layer.name, inputs[0]); break;
      case Kind::gelu: write_gelu(layer.name, inputs[0]); break;
    }
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
  void write_clip(const std::string& name, float low, float high, Inputs inputs) {
    inputs.push_back(std::isfinite(low) ? number(name + ".low", low) : "");
    if (std::isfinite(high)) inputs.push_back(number(name + ".high", high));
    node("Clip", name, inputs);
  }
  /// Writes x times an operator's result for x.
  onnx::NodeProto& write_product(const std::string& name, const std::string& x, const std::string& type) {
    onnx::NodeProto& factor = node(type, name + ".factor", {x});
    node("Mul", name, {x, name + ".factor"});
    return factor;
  }
  /// The operator HardSwish came with opset 14.
  void write_hard_swish(const std::string& name, const std::string& x) {
    onnx::NodeProto& factor = write_product(name, x, "HardSigmoid");
    set(factor, "alpha", 1.0F / 6.0F);
    set(factor, "beta", 0.5F);
  }
  /// The operator Gelu came with opset 20. The nodes are those of PyTorch: x * (1 + erf(x / sqrt(2))) * 0.5.
  void write_gelu(const std::string& name, const std::string& x) {
    node("Div", name + ".scaled", {x, number(name + ".root", std::numbers::sqrt2_v<float>)});
    node("Erf", name + ".erf", {name + ".scaled"});
    node("Add", name + ".sum", {name + ".erf", number(name + ".one", 1.0F)});
    node("Mul", name + ".product", {x, name + ".sum"});
    node("Mul", name, {name + ".product", number(name + ".half", 0.5F)});
  }
  void write(const Layer& layer, const Pooling& pool, const Inputs& inputs) {
    onnx::NodeProto& made = node(pool.kind == PoolKind::max ? "MaxPool" : "AveragePool", layer.name, inputs);
    set_window(made, pool);
    if (pool.kind == PoolKind::average_with_padding) set(made, "count_include_pad", 1);
  }
  void write(const Layer& layer, const GlobalAveragePool&, const Inputs& inputs) {
    node("GlobalAveragePool", layer.name, inputs);
  }
  void write(const Layer& layer, const BatchNorm& norm, Inputs inputs) {
    for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"}) {
      inputs.push_back(tensor(layer.name + part));
    }
    onnx::NodeProto& made = node("BatchNormalization", layer.name, inputs);
    set(made, "epsilon", norm.epsilon);
    set(made, "momentum", 1.0F - norm.momentum);
  }
  void write(const Layer& layer, const ResponseNorm& norm, const Inputs& inputs) {
    if (norm.size % 2 == 0) return write_even_norm(layer, norm, inputs[0]);
    onnx::NodeProto& made = node("LRN", layer.name, inputs);
    set(made, "size", norm.size);
    set(made, "alpha", norm.alpha);
    set(made, "beta", norm.beta);
    set(made, "bias", norm.k);
  }
  /// Writes x / (k + alpha / size * sum of squares)^beta, with the sums as a convolution of 1x1: onnxruntime refuses an LRN over
  /// an even number of channels.
  void write_even_norm(const Layer& layer, const ResponseNorm& norm, const std::string& x) {
    const std::string& name = layer.name;
    const int channels = layer.output.channels;
    onnx::TensorProto& band = constant(name + ".band", onnx::TensorProto::FLOAT);
    for (const int extent : {channels, channels, 1, 1}) band.add_dims(extent);
    for (int to = 0; to < channels; ++to) {
      for (int from = 0; from < channels; ++from)
        band.add_float_data(onnx_file::in_band(norm.size, to, from) ? 1.0F : 0.0F);
    }
    node("Mul", name + ".squares", {x, x});
    node("Conv", name + ".sums", {name + ".squares", name + ".band"});
    node("Mul", name + ".scaled", {name + ".sums", number(name + ".alpha", norm.alpha)});
    node("Div", name + ".means", {name + ".scaled", number(name + ".size", static_cast<float>(norm.size))});
    node("Add", name + ".shifted", {name + ".means", number(name + ".k", norm.k)});
    node("Pow", name + ".power", {name + ".shifted", number(name + ".beta", norm.beta)});
    node("Div", name, {x, name + ".power"});
  }
  void write(const Layer& layer, const PRelu&, Inputs inputs) {
    inputs.push_back(channel_numbers(layer.name + ".weight"));
    node("PRelu", layer.name, inputs);
  }
  /// Opset 13 has an instance norm, of which the others are composed as in PyTorch's exports. The node that normalises has the
  /// layer's name, so that an import gives the layer its name again.
  void write(const Layer& layer, const Normalisation& what, const Inputs& inputs) {
    const std::string& name = layer.name;
    const auto [channels, height, width] = layer.output;
    if (what.norm.groups == channels && !what.norm.by_position) {
      const std::string factors = what.affine ? tensor(name + ".weight") : equal(name + ".ones", 1.0F, channels);
      const std::string terms = what.affine ? tensor(name + ".bias") : equal(name + ".zeros", 0.0F, channels);
      write_instance_norm(name, {inputs[0], factors, terms}, what.norm.epsilon);
      return;
    }
    const std::string normalised = what.affine ? name + ".normalised" : name;
    if (what.norm.by_position) {
      write_position_norm(name, normalised, inputs[0], what.norm.epsilon);
    } else {
      const int groups = what.norm.groups;
      node("Reshape", name + ".lists", {inputs[0], integers(name + ".to", {0, groups, -1})});
      const Inputs inputs_of_norm{name + ".lists", equal(name + ".ones", 1.0F, groups),
                                  equal(name + ".zeros", 0.0F, groups)};
      write_instance_norm(name + ".norm", inputs_of_norm, what.norm.epsilon).set_name(name);
      node("Reshape", normalised, {name + ".norm", integers(name + ".back", {0, channels, height, width})})
          .set_name(name + ".maps");
    }
    if (!what.affine) return;
    node("Mul", name + ".scaled", {normalised, channel_numbers(name + ".weight")});
    node("Add", name, {name + ".scaled", channel_numbers(name + ".bias")}).set_name(name + ".shifted");
  }
  onnx::NodeProto& write_instance_norm(const std::string& name, const Inputs& inputs, float epsilon) {
    onnx::NodeProto& made = node("InstanceNormalization", name, inputs);
    set(made, "epsilon", epsilon);
    return made;
  }
  /// Writes a norm over the channels of each position.
  void write_position_norm(const std::string& prefix, const std::string& name, const std::string& x, float epsilon) {
    const std::vector<int> channels{1};
    set(node("ReduceMean", prefix + ".mean", {x}), "axes", channels);
    node("Sub", prefix + ".distance", {x, prefix + ".mean"});
    node("Mul", prefix + ".square", {prefix + ".distance", prefix + ".distance"});
    set(node("ReduceMean", prefix + ".variance", {prefix + ".square"}), "axes", channels);
    node("Add", prefix + ".sum", {prefix + ".variance", number(prefix + ".epsilon", epsilon)});
    node("Sqrt", prefix + ".root", {prefix + ".sum"});
    node("Div", name, {prefix + ".distance", prefix + ".root"}).set_name(prefix);
  }
  /// Adds a list of `count` equal numbers as a constant and returns its name.
  std::string equal(const std::string& name, float value, int count) {
    onnx::TensorProto& made = constant(name, onnx::TensorProto::FLOAT);
    made.add_dims(count);
    for (int i = 0; i < count; ++i) made.add_float_data(value);
    return name;
  }
  void write(const Layer& layer, const Upsampling& by, const Inputs& inputs) {
    onnx::TensorProto& scales = constant(layer.name + ".scales", onnx::TensorProto::FLOAT);
    scales.add_dims(4);
    for (const int scale : {1, 1, by.rows, by.columns}) scales.add_float_data(static_cast<float>(scale));
    onnx::NodeProto& made = node("Resize", layer.name, {inputs[0], "", scales.name()});
    set(made, "mode", by.bilinear ? "linear" : "nearest");
    set(made, "coordinate_transformation_mode", by.bilinear ? "half_pixel" : "asymmetric");
    if (!by.bilinear) set(made, "nearest_mode", "floor");
  }
  void write(const Layer& layer, const Concat&, const Inputs& inputs) {
    set(node("Concat", layer.name, inputs), "axis", 1);
  }
  void write(const Layer& layer, const Sum&, const Inputs& inputs) { node("Sum", layer.name, inputs); }
  void write(const Layer& layer, const Product&, const Inputs& inputs) {
    std::string product = inputs[0];
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      const bool last = i + 1 == inputs.size();
      const std::string name = last ? layer.name : fmt::format("{}.product{}", layer.name, i);
      node("Mul", name, {product, inputs[i]});
      product = name;
    }
  }
  void write(const Layer& layer, const PadChannels& pad, Inputs inputs) {
    inputs.push_back(integers(layer.name + ".pads", {0, pad.before, 0, 0, 0, pad.after, 0, 0}));
    node("Pad", layer.name, inputs);
  }
  void write(const Layer& layer, const SliceChannels& slice, Inputs inputs) {
    inputs.push_back(integers(layer.name + ".starts", {slice.first}));
    inputs.push_back(integers(layer.name + ".ends", {slice.first + slice.count}));
    inputs.push_back(integers(layer.name + ".axes", {1}));
    node("Slice", layer.name, inputs);
  }
  void write(const Layer& layer, const ShuffleChannels& shuffle, const Inputs& inputs) {
    const auto [channels, height, width] = layer.output;
    const int each = channels / shuffle.groups;
    const std::string& name = layer.name;
    // A 0 stands for the number of images.
    node("Reshape", name + ".groups", {inputs[0], integers(name + ".to", {0, shuffle.groups, each, height, width})});
    set(node("Transpose", name + ".turned", {name + ".groups"}), "perm", std::vector<int>{0, 2, 1, 3, 4});
    node("Reshape", name, {name + ".turned", integers(name + ".back", {0, channels, height, width})});
  }
  void write(const Layer& layer, const Dense&, Inputs inputs) {
    inputs = {as_list(layer.inputs[0], inputs[0])};
    inputs.push_back(tensor(layer.name + ".weight"));
    inputs.push_back(tensor(layer.name + ".bias"));
    set(node("Gemm", layer.name, inputs), "transB", 1);
  }
  void write(const Layer& layer, const Flatten&, const Inputs& inputs) { node("Flatten", layer.name, inputs); }
  void write(const Layer& layer, const Dropout& dropout, Inputs inputs) {
    onnx::TensorProto& rate = constant(layer.name + ".ratio", onnx::TensorProto::FLOAT);
    rate.add_float_data(dropout.rate);
    inputs.push_back(rate.name());
    node("Dropout", layer.name, inputs);
  }
  void write(const Layer&, const SoftmaxCrossEntropy&, const Inputs&) {}
  void write(const Layer&, const SquaredError&, const Inputs&) {}

  const Net& net_;
  std::map<std::string, const NamedTensor*> tensors_;
  onnx::ModelProto model_;
  onnx::GraphProto graph_;
  std::map<int, std::string> values_;  ///< by layer
};

}  // namespace

std::string to_onnx(const Net& net, const std::vector<NamedTensor>& tensors) { return Exporter(net, tensors).run(); }

}  // namespace convoy
