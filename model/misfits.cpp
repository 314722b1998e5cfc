#include "model/misfits.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/text.hpp"

namespace convoy {

std::string layer_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

void add_layer_of(const std::string& tensor, std::vector<std::string>& layers) {
  const std::string layer = layer_of(tensor);
  if (std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
}

std::string way_without_misfits(const WeightFile& file, const std::vector<TensorView>& net,
                                const std::vector<std::string>& except) {
  constexpr std::size_t kMost = 20;
  const TensorsByName by_name(file.contents, file.name);
  std::vector<std::string> misfits = except;
  std::set<std::string> known;
  for (const TensorView& tensor : net) {
    known.insert(tensor.name);
    const NamedTensor* from = by_name.find(tensor.name);
    if (from == nullptr || from->dims != tensor.dims) add_layer_of(tensor.name, misfits);
  }
  const bool some_fit = std::ranges::any_of(
      layers_of(net), [&](const std::string& layer) { return std::ranges::find(misfits, layer) == misfits.end(); });
  for (const NamedTensor& tensor : file.contents.tensors) {
    if (!known.contains(tensor.name)) add_layer_of(printable(tensor.name, 120), misfits);
  }
  if (!some_fit || misfits.size() > kMost) return "";
  return fmt::format("; to train on from its other layers: convoy-master train NET --weights {} --except {}", file.name,
                     fmt::join(misfits, " --except "));
}

}  // namespace convoy
