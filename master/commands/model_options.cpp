// The options of the commands that read and write models of other programs.

#include "cli/checks.hpp"
#include "master/commands/options.hpp"

namespace convoy {

void define(CLI::App& command, ImportOptions& options) {
  command.add_option("model", options.model, "ONNX file, or weights of a PyTorch model (.safetensors)")->required();
  CLI::Option* net = command.add_option("--net", options.net, "net file for weights of a PyTorch model");
  add_set_option(command, options.set);
  command.add_option("--names", options.names, "YAML map from each layer to the module that holds its weights")
      ->needs(net);
  command
      .add_option("--output", options.outputs,
                  "an output of the ONNX model to import, the main one first; repeatable (default: all outputs)")
      ->excludes(net)
      ->allow_extra_args(false);
  command.add_option(
      "--out", options.out,
      "path of the files to write, without .yaml and .safetensors (default: the model's name, in this folder)");
  command.add_flag("--force", options.force, "overwrite these files if they exist");
}

void define(CLI::App& command, ExportOptions& options) {
  command.add_option("net", options.net, "net file")->required();
  add_set_option(command, options.set);
  command.add_option("--weights", options.weights, "weights of a run (.safetensors)")->required();
  command.add_option("--out", options.out, "ONNX file to write")->required();
  command.add_flag("--force", options.force, "overwrite that file if it exists");
}

}  // namespace convoy
