#include <yaml-cpp/yaml.h>

#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "nets/file/rates.hpp"
#include "nets/file/read_layer.hpp"
#include "nets/file/read_teaching.hpp"

namespace convoy {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 20;
constexpr std::size_t kMostLayers = 4096;
constexpr std::size_t kMostClasses = 65536;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

/// The map that the first word of an override names: a layer, or a block of the file.
YAML::Node find_owner(const YAML::Node& root, const std::string& owner, const std::string& override) {
  for (const char* block : {"input", "training", "augment"}) {
    if (owner == block) return root[owner];
  }
  std::vector<std::string> names;
  for (const auto& layer : root["layers"]) {
    if (!layer.IsMap() || !layer["name"].IsDefined() || !layer["name"].IsScalar()) continue;
    if (layer["name"].Scalar() == owner) return layer;
    names.push_back(layer["name"].Scalar());
  }
  fail("--set {}: there is no layer '{}'; name one of {}, or input, training or augment", override, owner,
       fmt::join(names, ", "));
}

/// Sets the field `freeze` or `rate` of all layers with weights whose names match the first word of `path`.
void set_rates(YAML::Node& root, const std::vector<std::string>& path, const std::string& value,
               const std::string& override, Applied& applied) {
  if (path.size() != 2 || (path[1] != "freeze" && path[1] != "rate")) {
    fail("--set {}: a pattern with * or ? can set freeze or rate alone, as in 'conv*.freeze=true'", override);
  }
  bool matched = false;
  for (const auto& entry : root["layers"]) {
    YAML::Node layer = entry;
    const YAML::Node& seen = layer;
    const auto has = [&seen](const char* field) { return seen[field].IsDefined() && seen[field].IsScalar(); };
    if (!layer.IsMap() || !has("name") || !has("type")) continue;
    const std::string name = seen["name"].Scalar();
    const std::string type = seen["type"].Scalar();
    if (!matches_pattern(path[0], name) || (type != "conv" && type != "dense" && type != "batch_norm")) continue;
    layer[path[1]] = load_yaml(value, "--set " + override);
    applied[name + "." + path[1]] = value;
    matched = true;
  }
  if (!matched) fail("--set {}: '{}' matches no layer with weights", override, path[0]);
}

void apply_override(YAML::Node& root, const std::string& override, Applied& applied) {
  const std::size_t equals = override.find('=');
  const std::vector<std::string> path = split(override.substr(0, equals), '.');
  if (equals == std::string::npos || path.size() < 2 || path.size() > 3 || equals + 1 == override.size()) {
    fail("--set '{}': expected OWNER.FIELD=VALUE, as in conv1.filters=150 or training.learning_rate=0.01", override);
  }
  const std::string value = override.substr(equals + 1);
  if (!root.IsMap() || !root["layers"].IsSequence()) fail("--set {}: the file has no list of layers", override);
  for (const char* block : {"training", "augment"}) {
    if (path[0] == block && !root[block].IsDefined()) root[block] = YAML::Node(YAML::NodeType::Map);
  }
  if (path[0].find_first_of("*?") != std::string::npos) return set_rates(root, path, value, override, applied);
  YAML::Node owner = find_owner(root, path[0], override);
  if (path.size() == 3) {
    if (!owner[path[1]].IsDefined()) owner[path[1]] = YAML::Node(YAML::NodeType::Map);
    owner.reset(owner[path[1]]);
  }
  if (!owner.IsMap()) fail("--set {}: {} has no fields to set", override, path.size() == 3 ? path[1] : path[0]);
  owner[path.back()] = load_yaml(value, "--set " + override);
  applied[override.substr(0, equals)] = value;
}

// ---- blocks --------------------------------------------------------------------------------------------------------

void read_input(Fields fields, Net& net) {
  net.input = {fields.integer("channels", 1, 4096), fields.integer("height", 1, 8192),
               fields.integer("width", 1, 8192)};
  if (fields.has("resize")) net.resize = fields.integer("resize", std::max(net.input.height, net.input.width), 16384);
  const bool mean = fields.has("mean");
  const bool deviation = fields.has("deviation");
  if (mean != deviation) fields.fail(mean ? "mean" : "deviation", "needs the other of mean and deviation beside it");
  if (mean) {
    const auto channels = static_cast<std::size_t>(net.input.channels);
    const std::vector<double> means = fields.numbers("mean", channels, -1e3, 1e3);
    const std::vector<double> deviations = fields.numbers("deviation", channels, 1e-6, 1e3);
    for (std::size_t c = 0; c < channels; ++c) net.scales.push_back({means[c], deviations[c]});
  }
  fields.finish();
}

Schedule read_schedule(Fields fields, int epochs) {
  Schedule schedule;
  const std::string kind = fields.word("kind");
  if (kind == "step") {
    schedule.kind = Schedule::Kind::step;
    schedule.every = fields.integer("every", 1, 1000000);
    if (fields.has("factor")) schedule.factor = fields.number("factor", 1e-6, 1.0);
  } else if (kind == "cosine") {
    schedule.kind = Schedule::Kind::cosine;
  } else if (kind == "snapshots") {
    schedule.kind = Schedule::Kind::snapshots;
  } else if (kind != "constant") {
    fields.fail("kind", fmt::format("is '{}'; expected constant, step, cosine or snapshots", kind));
  }
  if (fields.has("warm_up")) {
    schedule.warm_up = fields.number("warm_up", 0.0, 1e6);
    if (schedule.warm_up >= epochs)
      fields.fail("warm_up", fmt::format("is {}; it must be shorter than the {} epochs", schedule.warm_up, epochs));
  }
  fields.finish();
  return schedule;
}

Optimizer read_optimizer(Fields& fields) {
  const std::string name = fields.word("optimizer");
  if (name == "sgd") return Optimizer::sgd;
  if (name == "nesterov") return Optimizer::nesterov;
  if (name == "adam") return Optimizer::adam;
  fields.fail("optimizer", fmt::format("is '{}'; expected sgd, nesterov or adam", name));
}

TrainingOptions read_training(Fields fields, LayerRates& rates) {
  TrainingOptions options;
  rates = read_rates(fields);
  if (fields.has("batch")) options.batch = fields.integer("batch", 1, 65536);
  if (fields.has("epochs")) options.epochs = fields.integer("epochs", 1, 1000000);
  if (fields.has("patience")) options.patience = fields.integer("patience", 0, 1000000);
  if (fields.has("optimizer")) options.optimizer = read_optimizer(fields);
  if (fields.has("learning_rate")) options.learning_rate = fields.number("learning_rate", 1e-12, 1e6);
  if (fields.has("momentum")) options.momentum = fields.number("momentum", 0.0, 0.9999);
  if (fields.has("beta2")) options.beta2 = fields.number("beta2", 0.0, 0.999999);
  if (fields.has("epsilon")) options.epsilon = fields.number("epsilon", 1e-30, 1.0);
  if (fields.has("clip")) options.clip = fields.number("clip", 0.0, 1e9);
  if (fields.has("weight_decay")) options.weight_decay = fields.number("weight_decay", 0.0, 1.0);
  if (fields.has("schedule")) options.schedule = read_schedule(fields.map("schedule"), options.epochs);
  read_cycles(fields, options);
  options.teaching = read_teaching(fields);
  fields.finish();
  return options;
}

Augmentation read_augmentation(Fields fields, const FeatureShape& input) {
  Augmentation augment;
  if (fields.has("flip")) augment.flip = fields.boolean("flip");
  const int side = std::min(input.height, input.width);
  if (fields.has("crop")) augment.crop = fields.integer("crop", 0, side);
  if (fields.has("resized_crop")) augment.resized_crop = fields.number("resized_crop", 0.0, 1.0);
  if (fields.has("brightness")) augment.brightness = fields.number("brightness", 0.0, 1.0);
  if (fields.has("contrast")) augment.contrast = fields.number("contrast", 0.0, 1.0);
  if (fields.has("saturation")) augment.saturation = fields.number("saturation", 0.0, 1.0);
  if (fields.has("mixup")) augment.mixup = fields.number("mixup", 0.0, 100.0);
  if (augment.mixup > 0.0 && augment.mixup < 0.01) {
    fields.fail("mixup", fmt::format("is {}; expected 0.01 to 100, or 0 to mix no images", augment.mixup));
  }
  if (fields.has("cutout")) augment.cutout = fields.integer("cutout", 0, side);
  if (augment.resized_crop > 0.0 && augment.crop > 0) {
    fields.fail("crop", "and resized_crop both choose the part of an image at random; leave one of them out");
  }
  fields.finish();
  return augment;
}

// ---- the graph -----------------------------------------------------------------------------------------------------

using Written = std::vector<WrittenLayer>;

/// For each layer, the indices of its inputs. Layers are numbered in the order of the file.
std::vector<std::vector<int>> resolve_inputs(const Written& layers) {
  std::map<std::string, int> index{{"input", kNetInput}};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i].layer;
    if (!index.emplace(layer.name, static_cast<int>(i)).second) {
      layers[i].fields.fail("name", layer.name == "input"
                                        ? "is 'input', which names the net's input; choose another name"
                                        : "is the name of an earlier layer; choose a unique name");
    }
  }
  std::vector<std::vector<int>> inputs(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    constexpr std::size_t kMostInputs = 1024;
    if (layers[i].from.empty()) inputs[i] = {static_cast<int>(i) - 1};
    if (layers[i].from.size() > kMostInputs) {
      layers[i].fields.fail("from",
                            fmt::format("names {} layers; the limit is {}", layers[i].from.size(), kMostInputs));
    }
    for (const std::string& name : layers[i].from) {
      const auto found = index.find(name);
      if (found == index.end())
        layers[i].fields.fail("from", fmt::format("names '{}', but there is no such layer", name));
      inputs[i].push_back(found->second);
    }
    const LayerSpec& spec = layers[i].layer.spec;
    const bool several = std::holds_alternative<Concat>(spec) || std::holds_alternative<Sum>(spec) ||
                         std::holds_alternative<Product>(spec);
    if (!several && inputs[i].size() != 1) {
      layers[i].fields.fail("from", "names several layers; this type takes one input");
    }
    if (several && inputs[i].size() < 2) {
      layers[i].fields.fail("from", "names fewer than two layers; this type takes several inputs");
    }
  }
  return inputs;
}

bool is_loss(const LayerSpec& spec) {
  return std::holds_alternative<SoftmaxCrossEntropy>(spec) || std::holds_alternative<SquaredError>(spec);
}

/// A topological order of the layers that keeps the order of the file where possible. The file's last loss comes last.
std::vector<int> topological_order(const Written& layers, const std::vector<std::vector<int>>& inputs) {
  std::vector<int> order;
  std::vector<bool> placed(layers.size(), false);
  while (order.size() < layers.size()) {
    const std::size_t before = order.size();
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const bool ready = std::all_of(inputs[i].begin(), inputs[i].end(),
                                     [&](int input) { return input == kNetInput || placed[input]; });
      if (placed[i] || !ready) continue;
      placed[i] = true;
      order.push_back(static_cast<int>(i));
    }
    if (order.size() > before) continue;
    const auto stuck = std::find(placed.begin(), placed.end(), false) - placed.begin();
    layers[stuck].fields.fail("it is part of a cycle: its input depends on its own output; change `from`");
  }
  int main_loss = -1;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (is_loss(layers[i].layer.spec)) main_loss = static_cast<int>(i);
  }
  if (std::erase(order, main_loss) > 0) order.push_back(main_loss);
  return order;
}

/// Throws Error unless the net has a loss and every output except those of losses is read.
void check_uses(const Written& layers, const std::vector<std::vector<int>>& inputs) {
  std::vector<int> uses(layers.size(), 0);
  for (const auto& list : inputs) {
    for (const int input : list) {
      if (input != kNetInput) ++uses[input];
    }
  }
  const auto of_loss = [](const WrittenLayer& layer) { return is_loss(layer.layer.spec); };
  if (std::none_of(layers.begin(), layers.end(), of_loss)) {
    layers.back().fields.fail("the net has no loss; end it with softmax_cross_entropy or squared_error");
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool loss = of_loss(layers[i]);
    if (loss && uses[i] > 0)
      layers[i].fields.fail("it is a loss, but another layer reads it; nothing may follow a loss");
    if (!loss && uses[i] == 0) layers[i].fields.fail("no layer reads its output; connect it by `from`, or remove it");
  }
}

/// Throws Error unless a loss that has weights of classes has one for each.
void expect_class_weights(const WrittenLayer& written, int classes) {
  const auto* loss = std::get_if<SoftmaxCrossEntropy>(&written.layer.spec);
  if (loss == nullptr || loss->class_weights.empty()) return;
  if (loss->class_weights.size() == static_cast<std::size_t>(classes)) return;
  written.fields.fail("class_weights",
                      fmt::format("has {} numbers, but the net has {} classes; give one for each class",
                                  loss->class_weights.size(), classes));
}

void build_graph(Written written, Net& net) {
  const auto inputs = resolve_inputs(written);
  const std::vector<int> order = topological_order(written, inputs);
  check_uses(written, inputs);
  std::vector<int> new_index(written.size());
  std::uint32_t dropouts = 0;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const auto i = static_cast<std::size_t>(order[place]);
    new_index[i] = static_cast<int>(place);
    std::vector<FeatureShape> shapes;
    written[i].layer.inputs.clear();
    for (const int input : inputs[i]) {
      const int from = input == kNetInput ? kNetInput : new_index[input];
      written[i].layer.inputs.push_back(from);
      shapes.push_back(from == kNetInput ? net.input : net.layers[from].output);
    }
    if (auto* dropout = std::get_if<Dropout>(&written[i].layer.spec)) dropout->stream = dropouts++;
    connect(written[i], shapes);
    if (is_loss(written[i].layer.spec)) {
      if (net.classes != 0 && net.classes != shapes[0].size()) {
        written[i].fields.fail(
            fmt::format("the layer before it has {} outputs, but that of another loss has {}; expected the same number",
                        shapes[0].size(), net.classes));
      }
      net.classes = shapes[0].size();
      if (net.classes < 2) written[i].fields.fail("the layer before it needs at least two outputs, one for each class");
      expect_class_weights(written[i], net.classes);
    }
    net.layers.push_back(written[i].layer);
  }
}

/// Whether --set gives the net its outputs. The file's names are of the classes that the net had before.
bool sets_outputs(const Net& net, const Applied& applied) {
  for (const std::string& layer : layers_of_outputs(net)) {
    if (applied.contains(layer + ".units") || applied.contains(layer + ".filters")) return true;
  }
  return false;
}

Net read_root(Fields root, const std::string& file, const Applied& applied) {
  Net net;
  net.file = file;
  net.name = root.word("name");
  read_input(root.map("input"), net);
  if (root.has("classes")) net.class_names = root.texts("classes", kMostClasses);
  const YAML::Node list = root.node("layers");
  if (!list.IsSequence() || list.size() == 0)
    root.fail("layers", "is not a list; expected an entry `- {name: ..., type: ...}` for each layer");
  if (list.size() > kMostLayers)
    root.fail("layers", fmt::format("has {} entries; the limit is {}", list.size(), kMostLayers));
  LayerRates rates;
  if (root.has("training")) net.training = read_training(root.map("training"), rates);
  if (root.has("augment")) net.augment = read_augmentation(root.map("augment"), net.input);
  if (root.has("run")) net.run = root.texts("run");
  root.finish();
  Written layers;
  for (std::size_t i = 0; i < list.size(); ++i) layers.push_back(read_layer(file, list[i], i, applied));
  apply_rates(rates, layers);
  build_graph(std::move(layers), net);
  expect_outputs(net);
  const bool misnamed = !net.class_names.empty() && net.class_names.size() != static_cast<std::size_t>(net.classes);
  if (misnamed && sets_outputs(net, applied)) net.class_names.clear();
  const auto named = static_cast<int>(net.class_names.size());
  if (named != 0 && named != net.classes) {
    root.fail("classes", fmt::format("names {} classes, but the net has {} outputs; name as many classes, or {}", named,
                                     net.classes, change_of_outputs(net, named)));
  }
  return net;
}

}  // namespace

Net parse_net(const std::string& text, const std::string& file, const Overrides& overrides) {
  if (text.size() > kLargestFile)
    fail("{}: the file has more than {} bytes, the limit for net files", file, kLargestFile);
  try {
    YAML::Node root = load_yaml(text, file);
    if (!root.IsMap()) fail("{}:1: expected a net: name, input, layers", file);
    Applied applied;
    for (const std::string& override : overrides) apply_override(root, override, applied);
    Net net = read_root(Fields(file, root, "net", "", applied), file, applied);
    cut(net);  // finds the errors of the cut too
    return net;
  } catch (const YAML::Exception& error) {
    fail("{}:{}: a value here is not of the kind that is expected", file, error.mark.line + 1);
  }
}

Net read_net(const std::string& file, const Overrides& overrides) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) fail("{}: the path is a folder; expected a net file (.yaml)", file);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail("{}: the file cannot be read; expected a net file such as nets/lenet.yaml", file);
  std::string text(kLargestFile + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return parse_net(text, file, overrides);
}

}  // namespace convoy
