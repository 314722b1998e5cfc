#include "master/commands/options.hpp"

#include <CLI/CLI.hpp>

namespace convoy {

CLI::Option* add_set_option(CLI::App& command, std::vector<std::string>& set) {
  // One word after each: a net file that follows is not a field to set.
  return command
      .add_option("--set", set, "set a field of the net file: LAYER.FIELD=VALUE or training.FIELD=VALUE; repeatable")
      ->allow_extra_args(false);
}

namespace {

/// What computes, and how it is said.
void define_net(CLI::App& command, NetOptions& options) {
  command.add_option("net", options.net, "net file, for example nets/lenet.yaml")->required();
  add_set_option(command, options.set);
  command.add_option("--device", options.device, "this machine's device, see convoy-slave --list-devices")
      ->capture_default_str();
  DeviceOptions& device = options.device_options;
  command.add_option("--threads", device.threads, "threads to compute with here (0: all cores)")
      ->check(CLI::Range(0, 1024));
  command.add_flag("--tf32", device.tf32, "let an NVIDIA GPU round factors to 10 bits of mantissa, for speed");
  command.add_flag("--fp16", device.fp16, "keep what convolutions on an OpenCL device read in 16 bits");
  command
      .add_option_function<std::string>(
          "--compute", [&device](const std::string& type) { device.bf16 = type == "bf16"; },
          "fp32, or bf16: convolutions on this machine's cpu device multiply bfloat16 and sum in fp32, for speed where "
          "the processor has instructions for it")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->default_str("fp32");
  command.add_option("--batch", options.batch, "images a step (default: the net file's)")->check(CLI::Range(1, 65536));
  command.add_option("--format", options.format, "text for people, json for programs: one object a line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
}

void define(CLI::App& command, NetOptions& options) {
  define_net(command, options);
  command
      .add_option("--data", options.data,
                  "folder with CIFAR-10 (binary), MNIST (IDX, also gzipped) or a folder of JPEG or PNG for each class; "
                  "or 'glyphs', "
                  "which the program draws itself")
      ->capture_default_str();
  const std::map<std::string, Corrupt> corrupt{{"refuse", Corrupt::refuse}, {"skip", Corrupt::skip}};
  command
      .add_option("--corrupt", options.corrupt, "what to do about photographs that cannot be decoded: refuse or skip")
      ->transform(CLI::CheckedTransformer(corrupt).description("{refuse,skip}"))
      ->default_str("refuse");
  command.add_option("--seed", options.seed, "seed of all random numbers")->capture_default_str();
}

void define(CLI::App& command, ClusterOptions& options) {
  command.add_option("--slaves", options.slaves, "slaves to wait for; with 0 this machine computes alone")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  command
      .add_option(
          "--least-slaves", options.least_slaves,
          "slaves without which a run does not go on: when fewer are left it waits for more, instead of going on "
          "with them, or alone")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  command.add_option("--listen", options.listen, "where slaves reach this master")->capture_default_str();
  command.add_flag("--insecure", options.insecure,
                   "neither encrypt nor authenticate: for networks that you trust; slaves need the same option");
  define_keys(command, options.keys);
  command.add_flag("--master-share", options.share, "this machine computes a share of the filters itself");
  command.add_option("--memory", options.memory, "most memory for this machine's own share, for example 2GiB");
  command.add_option("--shares", options.shares,
                     "fixed shares instead of measured speeds: a number for each member, as in 3,2,1; slaves in order "
                     "of their names, then the master");
  command
      .add_option("--wire", options.wire,
                  "fp32, bf16 or fp16, or int8 for gradients beside bf16 for maps: number type in which maps and "
                  "gradients travel; sums are in fp32 (default: the "
                  "plan's, or fp32)")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "int8"}));
  command
      .add_option("--exchange", options.exchange,
                  "star: maps go through the master; ring: from slave to slave (default: the plan's)")
      ->check(CLI::IsMember({"star", "ring"}));
  command
      .add_option("--micro-batch", options.micro_batch,
                  "images that travel together while the next are computed; the batch is a multiple (default: the "
                  "plan's)")
      ->check(CLI::Range(1, 65536));
  command.add_option(
      "--plan", options.plan,
      "fixed plan: the plan.json of a run with as many members; or thesis, for comparison: weights and raw "
      "maps travel each step, and slaves do nothing but convolve");
}

}  // namespace

void define(CLI::App& command, TrainOptions& options) {
  define(command, options.net);
  define(command, options.cluster);
  command.add_option("--epochs", options.epochs, "passes over the training images (default: the net file's)")
      ->check(CLI::Range(1, 1000000));
  command.add_option("--steps", options.steps, "stop after so many steps, with a checkpoint")
      ->check(CLI::Range(1L, 1000000000L));
  command.add_option("--out", options.out, "run folder (default: runs/NET-NUMBER)");
  command.add_option("--weights", options.weights, "start from these weights (.safetensors) instead of random ones");
  command.add_flag("--resume", options.resume, "go on from the last checkpoint in the folder of --out");
  command
      .add_option(
          "--snapshot-seconds", options.snapshot_seconds,
          "seconds between snapshots, in memory, that a run falls back to when a slave is lost (0: by what they "
          "cost)")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command.add_option("--checkpoint-seconds", options.checkpoint_seconds, "most seconds between checkpoints")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
}

void define(CLI::App& command, TestOptions& options) {
  define(command, options.net);
  define(command, options.cluster);
  command.add_option("--weights", options.weights, "weights of a run (.safetensors)")->required();
}

void define(CLI::App& command, PredictOptions& options) {
  define_net(command, options.net);
  define(command, options.cluster);
  command.add_option("--weights", options.weights, "weights of a run (.safetensors)")->required();
  command.add_option("images", options.images, "JPEG and PNG files, or folders of them")->required();
  command.add_option("--top", options.top, "classes to print of each image")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
}

void define(CLI::App& command, ImportOptions& options) {
  command.add_option("model", options.model, "ONNX file, or weights of PyTorch's (.safetensors)")->required();
  CLI::Option* net = command.add_option("--net", options.net, "net file that such weights are for");
  add_set_option(command, options.set)->needs(net);
  command.add_option("--names", options.names, "file that says which module each layer's weights are in: a YAML map")
      ->needs(net);
  command.add_option("--out", options.out,
                     "where NAME.yaml and NAME.safetensors go (default: the model's name, in this folder)");
}

void define(CLI::App& command, ExportOptions& options) {
  command.add_option("net", options.net, "net file")->required();
  add_set_option(command, options.set);
  command.add_option("--weights", options.weights, "weights of a run (.safetensors)")->required();
  command.add_option("--out", options.out, "ONNX file to write")->required();
}

void define_keys(CLI::App& command, std::string& keys) {
  command.add_option("--keys", keys,
                     "file with this master's keys, made when it is not there (default: convoy/master-keys.json in "
                     "$XDG_CONFIG_HOME, or ~/.config)");
}

void define(CLI::App& command, PlanOptions& options) {
  define(command, options.net);
  define(command, options.cluster);
  command
      .add_option("--calibration", options.calibration,
                  "plan for the machines that a run has timed, from its calibration.json, without them")
      ->excludes("--slaves")
      ->excludes("--shares");
}

}  // namespace convoy
