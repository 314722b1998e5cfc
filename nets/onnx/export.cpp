#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "nets/graph/net.hpp"
#include "nets/onnx/activation_writer.hpp"
#include "nets/onnx/graph.hpp"
#include "nets/onnx/onnx.hpp"
#include "nets/onnx/places.hpp"

namespace convoy {
namespace {

constexpr int kOpset = 13;
constexpr int kFormat = 7;  // file format (IR version) that goes with opset 13

/// Writes the layers that the main head depends on, each as one or two nodes.
class Exporter : onnx_file::ActivationWriter {
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
        if (input != kNetInput) needed[input] = true;
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
    const Layer& made = net_.layers[layer];
    if (std::holds_alternative<Dense>(made.spec) || std::holds_alternative<Flatten>(made.spec)) return true;
    const bool passes = std::holds_alternative<Activation>(made.spec) || std::holds_alternative<Dropout>(made.spec) ||
                        std::holds_alternative<BatchNorm>(made.spec);
    return passes && is_list(made.inputs[0]);
  }
  /// Whether the operator of a layer takes lists as it takes maps.
  static bool takes_lists(const Layer& layer) {
    return std::visit(
        [](const auto& spec) {
          using Spec = std::decay_t<decltype(spec)>;
          return std::is_same_v<Spec, Activation> || std::is_same_v<Spec, Dropout> || std::is_same_v<Spec, BatchNorm> ||
                 std::is_same_v<Spec, Dense> || std::is_same_v<Spec, Flatten>;
        },
        layer.spec);
  }
  /// Returns the name of a dense layer's value as maps of 1x1; adds a Reshape node.
  std::string as_maps(const std::string& reader, int layer, const std::string& value) {
    const std::string name = fmt::format("{}.{}", reader, value);
    const int channels = net_.layers[layer].output.channels;
    node("Reshape", name + ".maps", {value, integers(name + ".extents", {0, channels, 1, 1})});
    return name + ".maps";
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
    for (const int input : layer.inputs) {
      const std::string value = input == kNetInput ? "input" : values_.at(input);
      inputs.push_back(is_list(input) && !takes_lists(layer) ? as_maps(layer.name, input, value) : value);
    }
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
  void write(const Layer& layer, const TransposedConvolution& what, Inputs inputs) {
    const Convolution& conv = what.conv;
    inputs.push_back(tensor(layer.name + ".weight"));
    onnx::TensorProto& weights = *graph_.mutable_initializer(graph_.initializer_size() - 1);
    const NamedTensor& ours = *tensors_.at(layer.name + ".weight");
    const WeightOrder order{conv.groups, conv.filters / conv.groups, static_cast<int>(ours.dims[1]), conv.kernel_h,
                            conv.kernel_w};
    const std::vector<float> values = reordered(ours.values, order);
    weights.set_raw_data(values.data(), values.size() * sizeof(float));
    weights.set_dims(0, std::int64_t{order.groups} * order.second);
    weights.set_dims(1, order.first);
    if (conv.bias) inputs.push_back(tensor(layer.name + ".bias"));
    onnx::NodeProto& made = node("ConvTranspose", layer.name, inputs);
    set_window(made, conv);
    if (conv.dilated()) set(made, "dilations", std::vector<int>{conv.dilation_h, conv.dilation_w});
    if (conv.groups > 1) set(made, "group", conv.groups);
    if (what.more_rows + what.more_columns > 0)
      set(made, "output_padding", std::vector<int>{what.more_rows, what.more_columns});
  }
  void write(const Layer& layer, const Activation& activation, const Inputs& inputs) {
    write_activation(layer.name, activation, inputs[0]);
  }
  void write(const Layer& layer, const Pooling& pool, const Inputs& inputs) {
    onnx::NodeProto& made = node(pool.kind == PoolKind::max ? "MaxPool" : "AveragePool", layer.name, inputs);
    set_window(made, pool);
    if (pool.dilated()) set(made, "dilations", std::vector<int>{pool.dilation_h, pool.dilation_w});
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
  /// Writes x / (k + alpha / size * sum of squares)^beta, with the sums as a convolution of 1x1: onnxruntime refuses an
  /// LRN over an even number of channels.
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
  /// Opset 13 has an instance norm, of which the others are composed as in PyTorch's exports. The node that normalises
  /// has the layer's name, so that an import gives the layer its name again.
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
  void write(const Layer& layer, const Upsampling& by, const Inputs& inputs) {
    const std::array<float, 2> scales{static_cast<float>(by.rows), static_cast<float>(by.columns)};
    write_resize(layer.name, {inputs[0], "", scales_of(layer.name, scales)},
                 {by.bilinear ? "half_pixel" : "asymmetric", by.bilinear ? "" : "floor", {}});
  }
  void write(const Layer& layer, const Resizing& by, const Inputs& inputs) {
    const int input = layer.inputs[0];
    const FeatureShape& in = input == kNetInput ? net_.input : net_.layers[input].output;
    for (const onnx_file::PlacesOfElements& one : ways_of(by.mode, by.rows, in.height)) {
      for (const onnx_file::PlacesOfElements& other : ways_of(by.mode, by.columns, in.width)) {
        if (one.transformation != other.transformation || one.rounding != other.rounding) continue;
        const bool by_extents = one.transformation == "align_corners" ||
                                (is_quotient(by.rows, in.height) && is_quotient(by.columns, in.width));
        if (by_extents) {
          return write_resize(layer.name, {inputs[0], "", "", sizes_of(layer.name, inputs[0], layer.output)}, one);
        }
        const std::array<float, 2> scales{scale_of(by.mode, by.rows, in.height),
                                          scale_of(by.mode, by.columns, in.width)};
        return write_resize(layer.name, {inputs[0], "", scales_of(layer.name, scales)}, one);
      }
    }
    fail("{}:{}: layer {}: ONNX has no name for its steps and starts; give it others, or leave them out", net_.file,
         layer.line, layer.name);
  }
  /// The ways in which ONNX finds an axis' elements, as far as there are any.
  static std::vector<onnx_file::PlacesOfElements> ways_of(Resizing::Mode mode, const Resizing::Axis& axis, int from) {
    std::vector<onnx_file::PlacesOfElements> ways = onnx_file::ways_to_place(mode, from, axis.extent, axis.step);
    const auto differs = [](double a, double b) { return std::abs(a - b) > 1e-7; };
    std::erase_if(ways, [&](const onnx_file::PlacesOfElements& way) {
      // Of a scale, the extent follows.
      const bool fits = way.transformation == "align_corners" ||
                        std::floor(from / axis.step + 1e-6) == static_cast<double>(axis.extent);
      return !fits || differs(way.axis.step, axis.step) || differs(way.axis.start, axis.start);
    });
    return ways;
  }
  static bool is_quotient(const Resizing::Axis& axis, int from) {
    return std::abs(axis.step * axis.extent - from) < 1e-9 * from;
  }
  /// A scale whose product with the extent is not below the axis' extent, be it computed in single or double precision.
  static float scale_of(Resizing::Mode mode, const Resizing::Axis& axis, int from) {
    const auto is_too_small = [&](float scale) {
      return std::floor(static_cast<double>(from) * static_cast<double>(scale)) < axis.extent;
    };
    auto scale = static_cast<float>(1.0 / axis.step);
    while (is_too_small(scale)) scale = std::nextafter(scale, 2.0F * scale);
    if (mode != Resizing::Mode::nearest || axis.start != 0.0) return scale;
    // onnxruntime divides places by the scale in single precision; a quotient just below an element would be rounded
    // down.
    float smaller = scale;
    for (int i = 0; i < 8 && !is_too_small(smaller); ++i, smaller = std::nextafter(smaller, 0.0F)) {
      if (takes_the_elements(smaller, axis, from)) return smaller;
    }
    return scale;
  }
  /// Whether places divided by the scale and rounded down are the elements of the axis.
  static bool takes_the_elements(float scale, const Resizing::Axis& axis, int from) {
    float place = 0.0F;
    return std::ranges::all_of(elements_of(Resizing::Mode::nearest, axis, from), [&](const Between& element) {
      return std::min(static_cast<int>(place++ / scale), from - 1) == element.first;
    });
  }
  std::string scales_of(const std::string& name, const std::array<float, 2>& by) {
    onnx::TensorProto& scales = constant(name + ".scales", onnx::TensorProto::FLOAT);
    scales.add_dims(4);
    for (const float scale : {1.0F, 1.0F, by[0], by[1]}) scales.add_float_data(scale);
    return scales.name();
  }
  /// Writes nodes for the extents of maps of the shape `maps`, of as many images as `x` has.
  std::string sizes_of(const std::string& name, const std::string& x, const FeatureShape& maps) {
    node("Shape", name + ".shape", {x});
    node("Slice", name + ".images", {name + ".shape", integers(name + ".first", {0}), integers(name + ".behind", {1})});
    set(node("Concat", name + ".sizes",
             {name + ".images", integers(name + ".extents", {maps.channels, maps.height, maps.width})}),
        "axis", 0);
    return name + ".sizes";
  }
  void write_resize(const std::string& name, const Inputs& inputs, const onnx_file::PlacesOfElements& way) {
    onnx::NodeProto& made = node("Resize", name, inputs);
    set(made, "mode", way.rounding.empty() ? "linear" : "nearest");
    set(made, "coordinate_transformation_mode", way.transformation.c_str());
    if (!way.rounding.empty()) set(made, "nearest_mode", way.rounding.c_str());
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
  std::map<int, std::string> values_;  ///< by layer
};

}  // namespace

std::string to_onnx(const Net& net, const std::vector<NamedTensor>& tensors) { return Exporter(net, tensors).run(); }

}  // namespace convoy
