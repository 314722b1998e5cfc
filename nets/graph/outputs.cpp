// The outputs of a net: whether there is one for each class, and which layers make them.

#include <fmt/ranges.h>

#include <algorithm>

#include "nets/graph/net.hpp"

namespace convoy {
namespace {

template <class... Types>
bool is_any(const Layer& layer) {
  return (std::holds_alternative<Types>(layer.spec) || ...);
}

bool is_loss(const Layer& layer) { return is_any<SoftmaxCrossEntropy, SquaredError>(layer); }

/// The layer that a layer reads; nothing where it reads the images.
const Layer* layer_before(const Net& net, const Layer& layer) {
  const int input = layer.inputs[0];
  return input == kNetInput ? nullptr : &net.layers[input];
}

/// A map in front of a loss would make each of its pixels a class.
void expect_no_map(const Net& net, const Layer& loss) {
  const Layer* before = layer_before(net, loss);
  while (before != nullptr && is_any<Flatten, Activation, Dropout>(*before)) before = layer_before(net, *before);
  const FeatureShape& shape = before == nullptr ? net.input : before->output;
  if (shape.height * shape.width == 1) return;
  fail(
      "{}:{}: layer {}: its input is {}, which has {}x{}x{} values (channels, rows, columns) and not one for each "
      "class; "
      "put a dense layer in front of the loss, as in `- {{name: fc, type: dense, units: 10}}` for 10 classes, or a "
      "global_average_pool behind a convolution with as many filters as there are classes",
      net.file, loss.line, loss.name, before == nullptr ? "the image" : "the output of layer " + before->name,
      shape.channels, shape.height, shape.width);
}

/// The dense layer or convolution that makes the outputs before a loss; nothing where a join or the images do.
const Layer* maker_of(const Net& net, const Layer& loss) {
  const Layer* layer = layer_before(net, loss);
  while (
      layer != nullptr &&
      is_any<Flatten, Activation, Dropout, Pooling, GlobalAveragePool, BatchNorm, ResponseNorm, PRelu, Normalisation>(
          *layer)) {
    layer = layer_before(net, *layer);
  }
  return layer != nullptr && is_any<Dense, Convolution, TransposedConvolution>(*layer) ? layer : nullptr;
}

}  // namespace

void expect_outputs(const Net& net) {
  if (parameter_count(net) == 0) {
    fail("{}:{}: net {}: no layer has weights, so there is nothing to train; add a conv or dense layer", net.file,
         net.layers.back().line, net.name);
  }
  for (const Layer& layer : net.layers) {
    if (!is_loss(layer)) continue;
    expect_no_map(net, layer);
    if (!net.training.teaching.any() || is_any<SoftmaxCrossEntropy>(layer)) continue;
    fail(
        "{}:{}: layer {}: training.teacher needs nets whose losses are softmax_cross_entropy, since a teacher gives "
        "probabilities; change the loss, or leave the teacher out",
        net.file, layer.line, layer.name);
  }
}

std::vector<std::string> layers_of_outputs(const Net& net) {
  std::vector<std::string> makers;
  for (const Layer& layer : net.layers) {
    if (!is_loss(layer)) continue;
    const Layer* maker = maker_of(net, layer);
    if (maker == nullptr) {
      fail("{}:{}: layer {}: no dense layer or convolution makes its outputs, so that their number cannot be set",
           net.file, layer.line, layer.name);
    }
    makers.push_back(maker->name);
  }
  return makers;
}

Overrides overrides_for_outputs(const Net& net, int classes) {
  Overrides overrides;
  for (const std::string& name : layers_of_outputs(net)) {
    const auto maker = std::ranges::find(net.layers, name, &Layer::name);
    overrides.push_back(fmt::format("{}.{}={}", name, is_any<Dense>(*maker) ? "units" : "filters", classes));
  }
  return overrides;
}

std::string change_of_outputs(const Net& net, int classes) {
  for (const Layer& layer : net.layers) {
    if (is_loss(layer) && maker_of(net, layer) == nullptr)
      return fmt::format("give the layers before {} {} outputs", layer.name, classes);
  }
  return fmt::format("set them with --set {}", fmt::join(overrides_for_outputs(net, classes), " --set "));
}

std::string place_of_outputs(const Net& net) {
  const Layer* maker = maker_of(net, net.layers.back());
  const Layer& layer = maker == nullptr ? net.layers.back() : *maker;
  return fmt::format("{}:{}: layer {}", net.file, layer.line, layer.name);
}

}  // namespace convoy
