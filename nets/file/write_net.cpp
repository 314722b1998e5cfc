#include <fmt/ranges.h>

#include <cmath>

#include "nets/graph/net.hpp"

namespace convoy {
namespace {

std::string pads(const Padding& pad) {
  return fmt::format("[{}, {}, {}, {}]", pad.top, pad.left, pad.bottom, pad.right);
}

struct SpecWriter {
  std::string operator()(const Convolution& conv) const {
    return fmt::format("type: conv, filters: {}, kernel: [{}, {}], stride: [{}, {}], pad: {}{}{}{}", conv.filters,
                       conv.kernel_h, conv.kernel_w, conv.stride_h, conv.stride_w, pads(conv.pad),
                       conv.dilation_h == 1 && conv.dilation_w == 1
                           ? ""
                           : fmt::format(", dilation: [{}, {}]", conv.dilation_h, conv.dilation_w),
                       conv.groups == 1 ? "" : fmt::format(", groups: {}", conv.groups),
                       conv.bias ? "" : ", bias: false");
  }
  std::string operator()(const TransposedConvolution& what) const {
    const std::string text = (*this)(what.conv).substr(std::string("type: conv").size());
    const bool more = what.more_rows + what.more_columns > 0;
    return "type: conv_transpose" + text +
           (more ? fmt::format(", output_pad: [{}, {}]", what.more_rows, what.more_columns) : "");
  }
  std::string operator()(const Activation& activation) const {
    const auto [kind, alpha, beta] = activation;
    switch (kind) {
      case Activation::Kind::relu: return "type: relu";
      case Activation::Kind::sigmoid: return "type: sigmoid";
      case Activation::Kind::tanh: return "type: tanh";
      case Activation::Kind::leaky_relu: return fmt::format("type: leaky_relu, slope: {}", alpha);
      case Activation::Kind::clip: return clip(alpha, beta);
      case Activation::Kind::hard_sigmoid: return fmt::format("type: hard_sigmoid, alpha: {}, beta: {}", alpha, beta);
      case Activation::Kind::elu: return fmt::format("type: elu, alpha: {}", alpha);
      case Activation::Kind::selu: return "type: selu";
      case Activation::Kind::softplus: return "type: softplus";
      case Activation::Kind::silu: return "type: silu";
      case Activation::Kind::hard_swish: return "type: hard_swish";
      case Activation::Kind::gelu: return "type: gelu";
      case Activation::Kind::gelu_tanh: return "type: gelu, approximate: tanh";
      case Activation::Kind::mish: return "type: mish";
      case Activation::Kind::celu: return fmt::format("type: celu, alpha: {}", alpha);
    }
    return "type: relu";
  }
  std::string operator()(const BatchNorm& norm) const {
    return fmt::format("type: batch_norm, epsilon: {}, momentum: {}", norm.epsilon, norm.momentum);
  }
  std::string operator()(const ResponseNorm& norm) const {
    return fmt::format("type: response_norm, size: {}, alpha: {}, beta: {}, k: {}", norm.size, norm.alpha, norm.beta,
                       norm.k);
  }
  std::string operator()(const Normalisation& what) const {
    const auto [groups, epsilon, by_position] = what.norm;
    return (by_position ? "type: layer_norm" : fmt::format("type: group_norm, groups: {}", groups)) +
           fmt::format(", epsilon: {}{}", epsilon, what.affine ? "" : ", affine: false");
  }
  std::string operator()(const PRelu& prelu) const { return fmt::format("type: prelu, slope: {}", prelu.slope); }
  std::string operator()(const Upsampling& by) const {
    return fmt::format("type: upsample, factor: [{}, {}], mode: {}", by.rows, by.columns,
                       by.bilinear ? "bilinear" : "nearest");
  }
  std::string operator()(const Resizing& by) const {
    return fmt::format("type: resize, size: [{}, {}], mode: {}, step: [{}, {}], start: [{}, {}]", by.rows.extent,
                       by.columns.extent, by.mode == Resizing::Mode::linear ? "bilinear" : "nearest", by.rows.step,
                       by.columns.step, by.rows.start, by.columns.start);
  }
  std::string operator()(const Concat&) const { return "type: concat"; }
  std::string operator()(const Sum&) const { return "type: add"; }
  std::string operator()(const Product&) const { return "type: multiply"; }
  std::string operator()(const SliceChannels& slice) const {
    return fmt::format("type: slice_channels, first: {}, count: {}", slice.first, slice.count);
  }
  std::string operator()(const ShuffleChannels& shuffle) const {
    return fmt::format("type: shuffle_channels, groups: {}", shuffle.groups);
  }
  std::string operator()(const PadChannels& pad) const {
    return fmt::format("type: pad_channels, before: {}, after: {}", pad.before, pad.after);
  }
  std::string operator()(const GlobalAveragePool&) const { return "type: global_average_pool"; }
  std::string operator()(const Pooling& pool) const {
    const std::string dilation =
        pool.dilated() ? fmt::format(", dilation: [{}, {}]", pool.dilation_h, pool.dilation_w) : "";
    return fmt::format("type: {}, kernel: [{}, {}], stride: [{}, {}], pad: {}{}{}",
                       pool.kind == PoolKind::max ? "max_pool" : "average_pool", pool.kernel_h, pool.kernel_w,
                       pool.stride_h, pool.stride_w, pads(pool.pad),
                       pool.kind == PoolKind::average_with_padding ? ", count_padding: true" : "", dilation);
  }
  std::string operator()(const Dense& dense) const { return fmt::format("type: dense, units: {}", dense.units); }
  std::string operator()(const Flatten&) const { return "type: flatten"; }
  std::string operator()(const Dropout& dropout) const {
    return fmt::format("type: dropout, rate: {}{}", dropout.rate, dropout.spatial ? ", spatial: true" : "");
  }
  std::string operator()(const SoftmaxCrossEntropy& loss) const {
    std::string text = "type: softmax_cross_entropy";
    if (loss.label_smoothing != 0.0F) text += fmt::format(", label_smoothing: {}", loss.label_smoothing);
    if (!loss.class_weights.empty()) text += fmt::format(", class_weights: [{}]", fmt::join(loss.class_weights, ", "));
    return text + weight_of(loss.weight);
  }
  std::string operator()(const SquaredError& loss) const { return "type: squared_error" + weight_of(loss.weight); }

 private:
  static std::string clip(float low, float high) {
    if (low == 0.0F && high == 6.0F) return "type: relu6";
    return fmt::format("type: clip{}{}", std::isfinite(low) ? fmt::format(", low: {}", low) : "",
                       std::isfinite(high) ? fmt::format(", high: {}", high) : "");
  }
  static std::string weight_of(float weight) { return weight != 1.0F ? fmt::format(", weight: {}", weight) : ""; }
};

const char* name_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::sgd: return "sgd";
    case Optimizer::nesterov: return "nesterov";
    case Optimizer::adam: return "adam";
  }
  return "sgd";
}

std::string schedule(const Schedule& schedule) {
  const std::string rest = schedule.warm_up > 0.0 ? fmt::format(", warm_up: {}}}", schedule.warm_up) : "}";
  switch (schedule.kind) {
    case Schedule::Kind::constant: break;
    case Schedule::Kind::step:
      return fmt::format("{{kind: step, every: {}, factor: {}", schedule.every, schedule.factor) + rest;
    case Schedule::Kind::cosine: return "{kind: cosine" + rest;
    case Schedule::Kind::snapshots: return "{kind: snapshots" + rest;
  }
  return "{kind: constant" + rest;
}

std::string scales(const std::vector<ChannelScale>& scales) {
  std::vector<double> means;
  std::vector<double> deviations;
  for (const ChannelScale& scale : scales) {
    means.push_back(scale.mean);
    deviations.push_back(scale.deviation);
  }
  if (scales.empty()) return "";
  return fmt::format(", mean: [{}], deviation: [{}]", fmt::join(means, ", "), fmt::join(deviations, ", "));
}

std::string augment_fields(const Augmentation& augment) {
  std::string text = fmt::format("{{flip: {}, crop: {}", augment.flip, augment.crop);
  const auto add = [&text](const char* field, auto value) {
    if (value > 0) text += fmt::format(", {}: {}", field, value);
  };
  add("resized_crop", augment.resized_crop);
  add("brightness", augment.brightness);
  add("contrast", augment.contrast);
  add("saturation", augment.saturation);
  add("mixup", augment.mixup);
  add("cutout", augment.cutout);
  return text + "}";
}

/// A text in YAML's double quotes, with escapes.
std::string quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      quoted += std::string("\\") + letter;
    } else {
      quoted += byte < 0x20 || byte == 0x7F ? fmt::format("\\x{:02x}", byte) : std::string(1, letter);
    }
  }
  return quoted + "\"";
}

std::string rate_field(float rate) {
  if (rate == 0.0F) return ", freeze: true";
  return rate == 1.0F ? "" : fmt::format(", rate: {}", rate);
}

std::string init(const Initialisation& init) {
  switch (init.kind) {
    case Initialisation::Kind::automatic: break;
    case Initialisation::Kind::he: return ", init: he";
    case Initialisation::Kind::xavier: return ", init: xavier";
    case Initialisation::Kind::constant: return fmt::format(", init: {{constant: {}}}", init.value);
  }
  return "";
}

std::string cycles_and_teaching(const TrainingOptions& training) {
  std::string text = training.cycles > 0 ? fmt::format("  cycles: {}\n", training.cycles) : "";
  if (!training.teaching.any()) return text;
  std::vector<std::string> teachers;
  for (const std::string& teacher : training.teaching.teachers) teachers.push_back(quoted(teacher));
  return text + fmt::format("  teacher: [{}]\n  temperature: {}\n  mix: {}\n", fmt::join(teachers, ", "),
                            training.teaching.temperature, training.teaching.mix);
}

}  // namespace

std::string to_yaml(const Net& net) {
  std::string text = fmt::format("name: {}\ninput: {{channels: {}, height: {}, width: {}{}{}}}\n", net.name,
                                 net.input.channels, net.input.height, net.input.width,
                                 net.resize > 0 ? fmt::format(", resize: {}", net.resize) : "", scales(net.scales));
  if (!net.class_names.empty()) {
    std::vector<std::string> names;
    for (const std::string& name : net.class_names) names.push_back(quoted(name));
    text += fmt::format("classes: [{}]\n", fmt::join(names, ", "));
  }
  text += "layers:\n";
  for (const Layer& layer : net.layers) {
    std::vector<std::string> inputs;
    for (const int input : layer.inputs) {
      inputs.push_back(input == kNetInput ? "input" : net.layers[input].name);
    }
    text += fmt::format("  - {{name: {}, from: [{}], {}{}{}}}\n", layer.name, fmt::join(inputs, ", "),
                        std::visit(SpecWriter{}, layer.spec), init(layer.init), rate_field(layer.rate));
  }
  const TrainingOptions& t = net.training;
  text += fmt::format(
      "training:\n  batch: {}\n  epochs: {}\n{}  optimizer: {}\n  learning_rate: {}\n  momentum: {}\n  beta2: {}\n"
      "  epsilon: {}\n  weight_decay: {}\n  clip: {}\n  schedule: {}\n{}augment: {}\n",
      t.batch, t.epochs, t.patience > 0 ? fmt::format("  patience: {}\n", t.patience) : "", name_of(t.optimizer),
      t.learning_rate, t.momentum, t.beta2, t.epsilon, t.weight_decay, t.clip, schedule(t.schedule),
      cycles_and_teaching(t), augment_fields(net.augment));
  if (!net.run.empty()) text += "run:\n";
  for (const auto& [option, value] : net.run) text += fmt::format("  {}: {}\n", option, quoted(value));
  return text;
}

}  // namespace convoy
