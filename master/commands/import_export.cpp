#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/exit_code.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "master/commands/options.hpp"
#include "model/checkpoint.hpp"
#include "model/safetensors.hpp"
#include "model/torch_weights.hpp"
#include "model/valid_values.hpp"
#include "nets/graph/net.hpp"
#include "nets/onnx/onnx.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

/// Throws Error if the file exists, because somebody may have edited it, unless `force` is set.
void expect_free(const std::string& file, bool force) {
  std::error_code ignored;
  if (!force && fs::exists(file, ignored)) {
    fail("{} exists already; choose another name with --out, or overwrite it with --force", file);
  }
}

/// The path of the imported files without their endings: in a folder that --out names, the name of the model.
std::string place_of(const ImportOptions& options) {
  const std::string name = fs::path(options.model).stem().string();
  if (options.out.empty()) return name;
  const fs::path out(options.out);
  std::error_code ignored;
  if (!out.has_filename() || fs::is_directory(out, ignored)) return (out / name).string();
  const std::string ending = out.extension().string();
  return ending == ".yaml" || ending == ".safetensors" ? fs::path(out).replace_extension().string() : options.out;
}

void import_model(const ImportOptions& options, const std::string& out) {
  expect_free(out + ".yaml", options.force);
  const ImportedNet model = import_onnx(options.model, fs::path(out).filename().string(), options.outputs);
  for (const NamedTensor& tensor : model.tensors) require_valid(options.model, tensor.name, tensor.values);
  std::string yaml = model.yaml;
  const Net net = parse_net(yaml, out + ".yaml", options.set);
  if (!options.set.empty()) {
    if (parameter_count(net) != parameter_count(parse_net(yaml, out + ".yaml"))) {
      fail("--set: the weights of {} do not fit a net with these settings; change the net after the import",
           options.model);
    }
    yaml = to_yaml(net);
  }
  write_safetensors(out + ".safetensors", {.tensors = model.tensors, .metadata = {}});
  write_text(out + ".yaml", fmt::format("# Imported from {}.\n{}", fs::path(options.model).filename().string(), yaml));
  fmt::print("{}.yaml: {} layers, {} parameters, for images of {}x{}x{} (channels x rows x columns) and {} classes\n",
             out, net.layers.size(), parameter_count(net), net.input.channels, net.input.height, net.input.width,
             net.classes);
  fmt::print("{}.safetensors: the weights\n", out);
  for (const std::string& notice : model.notices) fmt::print("{}\n", notice);
}

void import_weights(const ImportOptions& options, const std::string& out) {
  const Net net = read_net(options.net, options.set);
  const ModuleNames names = options.names.empty() ? ModuleNames{} : read_module_names(options.names, net);
  TorchWeights weights = take_torch_weights(read_safetensors(options.model), options.model, net, names);
  write_safetensors(out + ".safetensors", {.tensors = std::move(weights.tensors), .metadata = {{"net", net.name}}});
  fmt::print("{}.safetensors: {} parameters for {}\n", out, parameter_count(net), options.net);
  if (weights.unused.empty()) return;
  constexpr std::size_t kShown = 100;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(kShown, weights.unused.size()); ++i) {
    shown.push_back(printable(weights.unused[i], 120));
  }
  fmt::print("tensors left out, because no layer of the net takes them: {}{}\n", fmt::join(shown, ", "),
             weights.unused.size() > kShown ? fmt::format(" and {} more", weights.unused.size() - kShown) : "");
}

}  // namespace

int import_command(const ImportOptions& options) {
  const bool weights = fs::path(options.model).extension() == ".safetensors";
  if (weights && options.net.empty()) {
    fail("{}: the file has weights only; give their net with --net NET", options.model);
  }
  if (!weights && !options.net.empty()) {
    fail("{}: an ONNX model contains its net; leave out --net, which is for weights in a .safetensors file",
         options.model);
  }
  const std::string out = place_of(options);
  expect_free(out + ".safetensors", options.force);
  if (weights) {
    import_weights(options, out);
  } else {
    import_model(options, out);
  }
  return kSuccess;
}

int export_command(const ExportOptions& options) {
  expect_free(options.out, options.force);
  const Net net = read_net(options.net, options.set);
  const SafetensorsFile weights = read_safetensors(options.weights);
  const Cut parts = cut(net);
  read_weights(options.weights, parts);  // throws Error if the weights do not fit the net
  write_text(options.out, to_onnx(net, weights.tensors));
  fmt::print("{}: {} as ONNX, opset 13; its outputs are the inputs of the loss\n", options.out, net.name);
  return kSuccess;
}

}  // namespace convoy
