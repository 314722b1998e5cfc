#include "model/torch_weights.hpp"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "core/text.hpp"
#include "model/checkpoint.hpp"
#include "model/valid_values.hpp"

namespace convoy {
namespace {

/// The layer of a tensor, such as "conv1" for "conv1.weight". Names of layers have no dots.
std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.find('.')); }

/// The first modules of the file, for an error text.
std::string modules_in(const SafetensorsFile& file) {
  constexpr std::size_t kShown = 12;
  std::vector<std::string> modules;
  for (const NamedTensor& tensor : file.tensors) {
    const std::string module = printable(tensor.name.substr(0, tensor.name.rfind('.')), 120);
    if (std::ranges::find(modules, module) == modules.end()) modules.push_back(module);
    if (modules.size() > kShown) break;
  }
  const bool more = modules.size() > kShown;
  if (more) modules.resize(kShown);
  return fmt::format("{}{}", fmt::join(modules, ", "), more ? ", ..." : "");
}

/// The order of a layer's weights in PyTorch, where it is another one: that of a transposed convolution.
std::optional<WeightOrder> other_order(const Net& net, const std::string& layer, const NamedTensor& wanted) {
  const auto found = std::ranges::find(net.layers, layer, &Layer::name);
  const auto* what = found == net.layers.end() ? nullptr : std::get_if<TransposedConvolution>(&found->spec);
  if (what == nullptr || wanted.dims.size() != 4) return std::nullopt;
  const int groups = what->conv.groups;
  return WeightOrder{groups, static_cast<int>(wanted.dims[1]), what->conv.filters / groups, what->conv.kernel_h,
                     what->conv.kernel_w};
}

std::vector<std::int64_t> dims_in(const WeightOrder& order) {
  return {std::int64_t{order.groups} * order.first, order.second, order.rows, order.columns};
}

/// The extents without those of 1 at their end, which say nothing about the order of the values: a dense layer of each
/// pixel is a convolution of 1x1, and factors of channels are a depthwise one.
std::vector<std::int64_t> without_ones(std::vector<std::int64_t> dims) {
  while (!dims.empty() && dims.back() == 1) dims.pop_back();
  return dims;
}

/// Returns the tensor with a layer's values: the tensor `part` of the module or, for weights, a parameter whose name is
/// the module's. Returns null if neither exists.
const NamedTensor* tensor_for(const TensorsByName& by_name, const std::string& module, const std::string& part) {
  const NamedTensor* found = by_name.find(module + part);
  return found == nullptr && part == ".weight" ? by_name.find(module) : found;
}

}  // namespace

TorchWeights take_torch_weights(const SafetensorsFile& from, const std::string& file, const Net& net,
                                const ModuleNames& names) {
  TorchWeights weights;
  const TensorsByName by_name(from, file);
  std::unordered_set<std::string> taken;
  for (NamedTensor& wanted : zero_tensors(cut(net))) {
    const std::string layer = module_of(wanted.name);
    const auto named = names.find(layer);
    const std::string module = named == names.end() ? layer : named->second;
    const std::string part = wanted.name.substr(layer.size());
    const NamedTensor* found = tensor_for(by_name, module, part);
    if (found == nullptr) {
      fail(
          "{}: the file has no tensor {}{} for layer {}; give the layer's module with --names. The file has the "
          "modules {}",
          file, module, part, layer, modules_in(from));
    }
    const std::string& name = found->name;
    const auto order = other_order(net, layer, wanted);
    const std::vector<std::int64_t> dims = order ? dims_in(*order) : wanted.dims;
    if (without_ones(found->dims) != without_ones(dims)) {
      fail("{}: tensor {} is {}, but {} of the net needs {}; give the right module with --names", file, name,
           fmt::join(found->dims, "x"), wanted.name, fmt::join(dims, "x"));
    }
    require_valid(file, name, found->values);
    wanted.values = order ? reordered(found->values, *order) : found->values;
    weights.tensors.push_back(std::move(wanted));
    taken.insert(name);
  }
  for (const NamedTensor& tensor : from.tensors) {
    if (!taken.contains(tensor.name)) weights.unused.push_back(tensor.name);
  }
  return weights;
}

}  // namespace convoy
