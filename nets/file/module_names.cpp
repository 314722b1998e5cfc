#include "nets/file/module_names.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "core/files.hpp"
#include "core/text.hpp"
#include "nets/file/fields.hpp"

namespace convoy {
namespace {

YAML::Node load_names(const std::string& text, const std::string& file) {
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    fail("{}:{}: this is no YAML; look there for brackets, quotes and indentation", file, error.mark.line + 1);
  }
}

}  // namespace

ModuleNames read_module_names(const std::string& file, const Net& net) {
  return parse_module_names(read_text(file, std::size_t{1} << 20), file, net);
}

ModuleNames parse_module_names(const std::string& text, const std::string& file, const Net& net) {
  const YAML::Node root = load_names(text, file);
  if (!root.IsMap())
    fail("{}: the file is not a map from layers to modules; expected lines such as conv1: features.0", file);
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
      fail("{}:{}: the net has no layer {} with weights; did you mean {}?", file, line, printable(layer, 80),
           nearest(layer, layers));
    }
    if (!names.emplace(layer, entry.second.Scalar()).second) fail("{}:{}: layer {} comes twice", file, line, layer);
  }
  return names;
}

}  // namespace convoy
