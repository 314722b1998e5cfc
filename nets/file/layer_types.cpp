#include "nets/file/layer_types.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>

namespace convoy {
namespace {

constexpr int kMostUnits = 1 << 20;
constexpr int kLargestKernel = 1024;

void set_pair(Fields& fields, const char* field, int& rows, int& columns) {
  const auto values = fields.pair(field, 1, kLargestKernel);
  rows = values[0];
  columns = values[1];
}

/// Reads padding: a number, [rows, columns], [top, left, bottom, right], `valid` or `same`.
Padding read_pad(Fields& fields, bool& same) {
  if (!fields.has("pad")) {
    return {};
  }
  const YAML::Node node = fields.node("pad");
  if (node.IsScalar() && node.Scalar() == "same") {
    same = true;
    return {};
  }
  if (node.IsScalar() && node.Scalar() == "valid") return {};
  if (node.IsSequence() && node.size() == 4) {
    const std::vector<int> sides = fields.integers("pad", 4, 0, kLargestKernel);
    return {sides[0], sides[1], sides[2], sides[3]};
  }
  const auto [rows, columns] = fields.pair("pad", 0, kLargestKernel);
  return {rows, columns, rows, columns};
}

LayerSpec read_conv(Fields& fields, bool& same) {
  Convolution conv;
  conv.filters = fields.integer("filters", 1, kMostUnits);
  set_pair(fields, "kernel", conv.kernel_h, conv.kernel_w);
  if (fields.has("stride")) set_pair(fields, "stride", conv.stride_h, conv.stride_w);
  conv.pad = read_pad(fields, same);
  if (fields.has("bias")) conv.bias = fields.boolean("bias");
  if (fields.has("dilation")) set_pair(fields, "dilation", conv.dilation_h, conv.dilation_w);
  if (fields.has("groups")) conv.groups = fields.integer("groups", 1, kMostUnits);
  return conv;
}

LayerSpec read_transposed(Fields& fields, bool& same) {
  TransposedConvolution what{.conv = std::get<Convolution>(read_conv(fields, same))};
  if (same) fields.fail("pad", "is 'same', which a transposed convolution does not have; expected numbers");
  if (fields.has("output_pad")) {
    const auto [rows, columns] = fields.pair("output_pad", 0, kLargestKernel);
    what.more_rows = rows;
    what.more_columns = columns;
  }
  return what;
}

template <PoolKind kind>
LayerSpec read_pool(Fields& fields, bool& same) {
  Pooling pool{.kind = kind};
  set_pair(fields, "kernel", pool.kernel_h, pool.kernel_w);
  pool.stride_h = pool.kernel_h;
  pool.stride_w = pool.kernel_w;
  if (fields.has("stride")) set_pair(fields, "stride", pool.stride_h, pool.stride_w);
  pool.pad = read_pad(fields, same);
  if (kind == PoolKind::max && fields.has("dilation")) set_pair(fields, "dilation", pool.dilation_h, pool.dilation_w);
  if (kind == PoolKind::average && fields.has("count_padding") && fields.boolean("count_padding")) {
    pool.kind = PoolKind::average_with_padding;
  }
  return pool;
}

template <Activation::Kind kind>
LayerSpec read_activation(Fields&, bool&) {
  return Activation{kind};
}

float number_or(Fields& fields, const char* field, double least, double most, double otherwise) {
  return static_cast<float>(fields.has(field) ? fields.number(field, least, most) : otherwise);
}

LayerSpec read_leaky_relu(Fields& fields, bool&) {
  return Activation{Activation::Kind::leaky_relu, number_or(fields, "slope", 0.0, 100.0, 0.01)};
}

/// Reads the limits, of which one may be missing.
LayerSpec read_clip(Fields& fields, bool&) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (!fields.has("low") && !fields.has("high")) fields.fail("it has no limit; expected low, high, or both");
  const float low = number_or(fields, "low", -1e6, 1e6, -kNone);
  const float high = number_or(fields, "high", -1e6, 1e6, kNone);
  if (!(low < high)) fields.fail("high", fmt::format("is {}, but low is {}; expected a larger number", high, low));
  return Activation{Activation::Kind::clip, low, high};
}

LayerSpec read_relu6(Fields&, bool&) { return Activation{Activation::Kind::clip, 0.0F, 6.0F}; }

LayerSpec read_hard_sigmoid(Fields& fields, bool&) {
  const float alpha = number_or(fields, "alpha", -100.0, 100.0, 1.0 / 6.0);
  return Activation{Activation::Kind::hard_sigmoid, alpha, number_or(fields, "beta", -100.0, 100.0, 0.5)};
}

LayerSpec read_elu(Fields& fields, bool&) {
  return Activation{Activation::Kind::elu, number_or(fields, "alpha", 0.0, 100.0, 1.0)};
}

LayerSpec read_celu(Fields& fields, bool&) {
  return Activation{Activation::Kind::celu, number_or(fields, "alpha", 0.001, 100.0, 1.0)};
}

LayerSpec read_gelu(Fields& fields, bool&) {
  const std::string how = fields.has("approximate") ? fields.word("approximate") : "none";
  if (how != "none" && how != "tanh") {
    fields.fail("approximate", fmt::format("is '{}'; expected none, or tanh as in PyTorch", how));
  }
  return Activation{how == "tanh" ? Activation::Kind::gelu_tanh : Activation::Kind::gelu};
}

LayerSpec read_batch_norm(Fields& fields, bool&) {
  BatchNorm norm{.name = fields.word("name")};
  if (fields.has("epsilon")) norm.epsilon = static_cast<float>(fields.number("epsilon", 0.0, 1.0));
  if (fields.has("momentum")) norm.momentum = static_cast<float>(fields.number("momentum", 0.0, 1.0));
  return norm;
}

/// Reads what all norms of a sample have.
LayerSpec read_norm(Fields& fields, GroupNorm norm) {
  if (fields.has("epsilon")) norm.epsilon = static_cast<float>(fields.number("epsilon", 0.0, 1.0));
  return Normalisation{norm, fields.has("affine") ? fields.boolean("affine") : true};
}

LayerSpec read_group_norm(Fields& fields, bool&) {
  return read_norm(fields, {.groups = fields.integer("groups", 1, kMostUnits)});
}

/// The number of groups is known with the number of channels.
LayerSpec read_instance_norm(Fields& fields, bool&) { return read_norm(fields, {.groups = kGroupOfEachChannel}); }

LayerSpec read_layer_norm(Fields& fields, bool&) { return read_norm(fields, {.groups = 1, .by_position = true}); }

LayerSpec read_prelu(Fields& fields, bool&) { return PRelu{number_or(fields, "slope", -100.0, 100.0, 0.25)}; }

LayerSpec read_upsample(Fields& fields, bool&) {
  Upsampling by;
  const auto factors = fields.pair("factor", 1, kLargestKernel);
  by.rows = factors[0];
  by.columns = factors[1];
  const std::string mode = fields.has("mode") ? fields.word("mode") : "nearest";
  if (mode != "nearest" && mode != "bilinear") {
    fields.fail("mode", fmt::format("is '{}'; expected nearest or bilinear", mode));
  }
  by.bilinear = mode == "bilinear";
  return by;
}

/// Reads `size` or `factor`, and where elements are taken from.
LayerSpec read_resize(Fields& fields, bool&) {
  constexpr double kFarthest = 1e6;
  const std::string mode = fields.has("mode") ? fields.word("mode") : "nearest";
  if (mode != "nearest" && mode != "bilinear") {
    fields.fail("mode", fmt::format("is '{}'; expected nearest or bilinear", mode));
  }
  const bool linear = mode == "bilinear";
  const bool corners = fields.has("align_corners") && fields.boolean("align_corners");
  if (fields.has("size") == fields.has("factor"))
    fields.fail("it has size and factor, or neither; expected one of them");
  if (fields.has("step") && (corners || fields.has("factor"))) {
    fields.fail("step", "is given beside align_corners or factor, which decide it; expected one of them");
  }
  std::array<Resizing::Axis, 2> axes{};
  for (std::size_t i = 0; i < 2; ++i) {
    Resizing::Axis& axis = axes.at(i);
    axis = {kExtentOfStep, corners ? kStepOfCorners : kStepOfExtents, linear && !corners ? kStartOfCentres : 0.0};
    if (fields.has("size")) axis.extent = fields.pair("size", 1, kMostUnits).at(i);
    if (fields.has("step")) axis.step = fields.numbers("step", 2, 0.0, kFarthest).at(i);
    if (fields.has("start")) axis.start = fields.numbers("start", 2, -kFarthest, kFarthest).at(i);
    if (!fields.has("factor")) continue;
    if (corners) fields.fail("factor", "is given beside align_corners; expected size beside it");
    axis.step = 1.0 / fields.numbers("factor", 2, 1.0 / kLargestKernel, kLargestKernel).at(i);
  }
  return Resizing{linear ? Resizing::Mode::linear : Resizing::Mode::nearest, axes[0], axes[1]};
}

LayerSpec read_dense(Fields& fields, bool&) { return Dense{fields.integer("units", 1, kMostUnits)}; }

LayerSpec read_dropout(Fields& fields, bool&) {
  const double rate = fields.number("rate", 0.0, 1.0);
  if (rate >= 1.0) fields.fail("rate", "is 1, which would drop everything; expected less than 1");
  const bool spatial = fields.has("spatial") && fields.boolean("spatial");
  return Dropout{.rate = static_cast<float>(rate), .spatial = spatial};
}

float read_loss_weight(Fields& fields) {
  return fields.has("weight") ? static_cast<float>(fields.number("weight", 0.0, 1e3)) : 1.0F;
}

LayerSpec read_squared_error(Fields& fields, bool&) { return SquaredError{read_loss_weight(fields)}; }

LayerSpec read_cross_entropy(Fields& fields, bool&) {
  SoftmaxCrossEntropy loss{.weight = read_loss_weight(fields)};
  if (fields.has("label_smoothing"))
    loss.label_smoothing = static_cast<float>(fields.number("label_smoothing", 0.0, 0.9));
  if (fields.has("class_weights")) {
    const YAML::Node list = fields.node("class_weights");
    if (!list.IsSequence() || list.size() > kMostUnits)
      fields.fail("class_weights", "is no list of a number for each class");
    for (const double weight : fields.numbers("class_weights", list.size(), 1e-6, 1e6)) {
      loss.class_weights.push_back(static_cast<float>(weight));
    }
  }
  return loss;
}

LayerSpec read_response_norm(Fields& fields, bool&) {
  ResponseNorm norm;
  if (fields.has("size")) norm.size = fields.integer("size", 1, 4096);
  if (fields.has("alpha")) norm.alpha = static_cast<float>(fields.number("alpha", 0.0, 1e6));
  if (fields.has("beta")) norm.beta = static_cast<float>(fields.number("beta", 0.0, 100.0));
  if (fields.has("k")) norm.k = static_cast<float>(fields.number("k", 1e-6, 1e6));
  return norm;
}

template <class T>
LayerSpec read_plain(Fields&, bool&) {
  return T{};
}

LayerSpec read_pad_channels(Fields& fields, bool&) {
  PadChannels pad;
  if (fields.has("before")) pad.before = fields.integer("before", 0, kMostUnits);
  if (fields.has("after")) pad.after = fields.integer("after", 0, kMostUnits);
  if (pad.before + pad.after == 0) fields.fail("it adds no channels; expected before, after, or both");
  return pad;
}

LayerSpec read_slice_channels(Fields& fields, bool&) {
  SliceChannels slice;
  if (fields.has("first")) slice.first = fields.integer("first", 0, kMostUnits);
  slice.count = fields.integer("count", 1, kMostUnits);
  return slice;
}

LayerSpec read_shuffle_channels(Fields& fields, bool&) {
  return ShuffleChannels{fields.integer("groups", 1, kMostUnits)};
}

}  // namespace

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> types = {
      {"conv", read_conv},
      {"conv_transpose", read_transposed},
      {"relu", read_activation<Activation::Kind::relu>},
      {"sigmoid", read_activation<Activation::Kind::sigmoid>},
      {"tanh", read_activation<Activation::Kind::tanh>},
      {"leaky_relu", read_leaky_relu},
      {"clip", read_clip},
      {"relu6", read_relu6},
      {"hard_sigmoid", read_hard_sigmoid},
      {"elu", read_elu},
      {"selu", read_activation<Activation::Kind::selu>},
      {"softplus", read_activation<Activation::Kind::softplus>},
      {"silu", read_activation<Activation::Kind::silu>},
      {"hard_swish", read_activation<Activation::Kind::hard_swish>},
      {"gelu", read_gelu},
      {"mish", read_activation<Activation::Kind::mish>},
      {"celu", read_celu},
      {"batch_norm", read_batch_norm},
      {"response_norm", read_response_norm},
      {"group_norm", read_group_norm},
      {"instance_norm", read_instance_norm},
      {"layer_norm", read_layer_norm},
      {"prelu", read_prelu},
      {"upsample", read_upsample},
      {"resize", read_resize},
      {"max_pool", read_pool<PoolKind::max>},
      {"average_pool", read_pool<PoolKind::average>},
      {"concat", read_plain<Concat>},
      {"add", read_plain<Sum>},
      {"multiply", read_plain<Product>},
      {"pad_channels", read_pad_channels},
      {"slice_channels", read_slice_channels},
      {"shuffle_channels", read_shuffle_channels},
      {"global_average_pool", read_plain<GlobalAveragePool>},
      {"dense", read_dense},
      {"flatten", read_plain<Flatten>},
      {"dropout", read_dropout},
      {"softmax_cross_entropy", read_cross_entropy},
      {"squared_error", read_squared_error},
  };
  return types;
}

}  // namespace convoy
