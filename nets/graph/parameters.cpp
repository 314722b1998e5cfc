// The parameters of a net's layers.

#include <numeric>

#include "nets/graph/net.hpp"

namespace convoy {

bool has_weights(const Layer& layer) {
  const auto* norm = std::get_if<Normalisation>(&layer.spec);
  return convolution_in(layer) != nullptr || std::holds_alternative<Dense>(layer.spec) ||
         std::holds_alternative<BatchNorm>(layer.spec) || std::holds_alternative<PRelu>(layer.spec) ||
         (norm != nullptr && norm->affine);
}

const Convolution* convolution_in(const Layer& layer) {
  if (const auto* transposed = std::get_if<TransposedConvolution>(&layer.spec)) return &transposed->conv;
  return std::get_if<Convolution>(&layer.spec);
}

std::vector<std::size_t> tensor_sizes(const Net& net) {
  std::vector<std::size_t> sizes;
  for (const Layer& layer : net.layers) {
    const int from = layer.inputs[0];
    const FeatureShape& in = from == kNetInput ? net.input : net.layers[from].output;
    if (const Convolution* conv = convolution_in(layer)) {
      const auto filters = static_cast<std::size_t>(conv->filters);
      sizes.push_back(filters * static_cast<std::size_t>(in.channels / conv->groups * conv->kernel_h * conv->kernel_w));
      if (conv->bias) sizes.push_back(filters);
    } else if (const auto* dense = std::get_if<Dense>(&layer.spec)) {
      const auto units = static_cast<std::size_t>(dense->units);
      sizes.insert(sizes.end(), {units * static_cast<std::size_t>(in.size()), units});
    } else if (std::holds_alternative<PRelu>(layer.spec)) {
      sizes.push_back(static_cast<std::size_t>(in.channels));
    } else if (has_weights(layer)) {
      sizes.insert(sizes.end(), 2, static_cast<std::size_t>(in.channels));
    }
  }
  return sizes;
}

std::size_t parameter_count(const Net& net) {
  const std::vector<std::size_t> sizes = tensor_sizes(net);
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

}  // namespace convoy
