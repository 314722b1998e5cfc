#include "master/torch_weights.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "master/checkpoint.hpp"
#include "nets/fields.hpp"

namespace convoy {
namespace {

bool has_weights(const Layer& layer) {
  return std::holds_alternative<Convolution>(layer.spec) || std::holds_alternative<Dense>(layer.spec) ||
         std::holds_alternative<BatchNorm>(layer.spec);
}

/// "conv1" of "conv1.weight": names of layers have no dots.
std::string layer_of(const std::string& tensor) { return tensor.substr(0, tensor.find('.')); }

YAML::Node load(const std::string& file) {
  try {
    return YAML::LoadFile(file);
  } catch (const YAML::BadFile&) {
    fail("{}: cannot be read; is there such a file?", file);
  } catch (const YAML::Exception& error) {
    fail("{}:{}: {}", file, error.mark.line + 1, error.msg);
  }
}

/// Modules of the file, to choose from.
std::string modules_in(const SafetensorsFile& file) {
  std::vector<std::string> modules;
  for (const NamedTensor& tensor : file.tensors) {
    const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
    if (std::ranges::find(modules, module) == modules.end()) modules.push_back(module);
  }
  constexpr std::size_t kShown = 12;
  const bool more = modules.size() > kShown;
  if (more) modules.resize(kShown);
  return fmt::format("{}{}", fmt::join(modules, ", "), more ? ", ..." : "");
}

}  // namespace

ModuleNames read_module_names(const std::string& file, const Net& net) {
  const YAML::Node root = load(file);
  if (!root.IsMap()) fail("{}: it is no map from layers to modules, such as conv1: features.0", file);
  std::vector<std::string> layers;
  for (const Layer& layer : net.layers) {
    if (has_weights(layer)) layers.push_back(layer.name);
  }
  ModuleNames names;
  for (const auto& entry : root) {
    const int line = entry.first.Mark().line + 1;
    if (!entry.first.IsScalar() || !entry.second.IsScalar()) {
      fail("{}:{}: expected a layer and a module, such as conv1: features.0", file, line);
    }
    const std::string layer = entry.first.Scalar();
    if (std::ranges::find(layers, layer) == layers.end()) {
      fail("{}:{}: the net has no layer {} with weights; did you mean {}?", file, line, layer, nearest(layer, layers));
    }
    if (!names.emplace(layer, entry.second.Scalar()).second) fail("{}:{}: layer {} comes twice", file, line, layer);
  }
  return names;
}

TorchWeights take_torch_weights(const SafetensorsFile& from, const std::string& file, const Net& net,
                                const ModuleNames& names) {
  TorchWeights weights;
  std::vector<std::string> taken;
  for (NamedTensor& wanted : zero_tensors(cut(net))) {
    const std::string layer = layer_of(wanted.name);
    const auto named = names.find(layer);
    const std::string module = named == names.end() ? layer : named->second;
    const std::string name = module + wanted.name.substr(layer.size());
    const auto found = std::ranges::find(from.tensors, name, &NamedTensor::name);
    if (found == from.tensors.end()) {
      fail("{}: there is no tensor {}, for layer {}; give the layer's module with --names. The file's are {}", file,
           name, layer, modules_in(from));
    }
    if (found->dims != wanted.dims) {
      fail("{}: tensor {} is {}, and {} of the net needs {}", file, name, fmt::join(found->dims, "x"), wanted.name,
           fmt::join(wanted.dims, "x"));
    }
    wanted.values = found->values;
    weights.tensors.push_back(std::move(wanted));
    taken.push_back(name);
  }
  for (const NamedTensor& tensor : from.tensors) {
    if (std::ranges::find(taken, tensor.name) == taken.end()) weights.unused.push_back(tensor.name);
  }
  return weights;
}

}  // namespace convoy
