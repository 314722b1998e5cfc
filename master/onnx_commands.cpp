#include <fmt/core.h>

#include <filesystem>

#include "core/exit_code.hpp"
#include "master/checkpoint.hpp"
#include "master/options.hpp"
#include "master/run_folder.hpp"
#include "master/safetensors.hpp"
#include "nets/net.hpp"
#include "nets/onnx.hpp"

namespace convoy {

int import_command(const ImportOptions& options) {
  namespace fs = std::filesystem;
  const std::string stem = fs::path(options.model).stem().string();
  const std::string out = options.out.empty() ? stem : options.out;
  for (const std::string ending : {".yaml", ".safetensors"}) {
    if (fs::exists(out + ending)) fail("{}{} is there already; choose another name with --out", out, ending);
  }
  const ImportedNet model = import_onnx(options.model, fs::path(out).filename().string());
  write_text(out + ".yaml", fmt::format("# Of {}.\n{}", fs::path(options.model).filename().string(), model.yaml));
  write_safetensors(out + ".safetensors", {.tensors = model.tensors, .metadata = {}});
  const Net net = read_net(out + ".yaml");
  fmt::print("{}.yaml: {} layers, {} parameters, for images of {}x{}x{} (channels x rows x columns) and {} classes\n",
             out, net.layers.size(), parameter_count(net), net.input.channels, net.input.height, net.input.width,
             net.classes);
  fmt::print("{}.safetensors: its weights\n", out);
  for (const std::string& notice : model.notices) fmt::print("{}\n", notice);
  return kSuccess;
}

int export_command(const ExportOptions& options) {
  const Net net = read_net(options.net, options.set);
  const SafetensorsFile weights = read_safetensors(options.weights);
  const Cut parts = cut(net);
  read_weights(options.weights, parts);  // which says what does not fit
  write_text(options.out, to_onnx(net, weights.tensors));
  fmt::print("{}: {} for ONNX, opset 13; its outputs are what goes into the loss\n", options.out, net.name);
  return kSuccess;
}

}  // namespace convoy
