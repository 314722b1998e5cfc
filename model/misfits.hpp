// The layers of a net and of a weight file that has weights for some of them only.
#pragma once

#include <string>
#include <vector>

#include "model/safetensors.hpp"

namespace convoy {

/// Returns "conv1" for "conv1.weight".
std::string layer_of(const std::string& tensor);

/// Adds the layer of a tensor to some layers, unless it is among them.
void add_layer_of(const std::string& tensor, std::vector<std::string>& layers);

/// Returns the layers of some tensors, each once, in their order.
template <class Tensors>
std::vector<std::string> layers_of(const Tensors& tensors) {
  std::vector<std::string> layers;
  for (const auto& tensor : tensors) add_layer_of(tensor.name, layers);
  return layers;
}

/// A weight file that has been read.
struct WeightFile {
  const std::string& name;
  const SafetensorsFile& contents;
};

/// Returns the end of an error, which says how to train on from the layers of a file that fit the net: a command that
/// leaves out all layers that do not fit, in addition to `except`. Returns an empty text where no layer fits, or so few
/// that the command would be of no use.
std::string way_without_misfits(const WeightFile& file, const std::vector<TensorView>& net,
                                const std::vector<std::string>& except);

}  // namespace convoy
