#include "master/commands/options.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "cli/checks.hpp"
#include "cli/command_line.hpp"
#include "devices/device_options.hpp"
#include "master/cluster/described_machines.hpp"
#include "master/commands/machine_options.hpp"
#include "master/commands/replica_options.hpp"
#include "master/commands/run_options.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

CLI::Option* add_set_option(CLI::App& command, std::vector<std::string>& set) {
  // Only one word follows --set, so that a net file after it is not taken for a field.
  return command
      .add_option(
          "--set", set,
          "set a field of the net file: LAYER.FIELD=VALUE, training.FIELD=VALUE or input.FIELD=VALUE; repeatable")
      ->allow_extra_args(false);
}

namespace {

/// Defines the options for the fields of the net, the device and the output.
void define_net_settings(CLI::App& command, NetOptions& options) {
  add_set_option(command, options.set);
  define_machine(command, options);
}

/// Defines the net, and the options for its fields, the device and the output.
void define_net(CLI::App& command, NetOptions& options) {
  command.add_option("net", options.net, "net file, for example nets/lenet.yaml")->required();
  define_net_settings(command, options);
}

void define_data(CLI::App& command, NetOptions& options) {
  command
      .add_option(
          "--data", options.data,
          "folder with CIFAR-10 (binary), MNIST (IDX, also gzipped), or a folder of JPEG, PNG or WebP files for each "
          "class; or glyphs, which the program draws itself. `test` takes the data of the run whose config.yaml "
          "it is given")
      ->capture_default_str();
  command.add_option("--seed", options.seed, "seed of all random numbers, a whole number from 0 on")
      ->check(any_whole_number())
      ->capture_default_str();
}

void define(CLI::App& command, NetOptions& options) {
  define_net(command, options);
  define_data(command, options);
}

void add_slaves_option(CLI::App& command, ClusterOptions& options, const std::string& help) {
  command.add_option("--slaves", options.slaves, help)->check(whole_number(0, 256))->capture_default_str();
}

void define(CLI::App& command, ClusterOptions& options) {
  add_slaves_option(command, options, "number of slaves to wait for; with 0 this machine computes alone");
  command
      .add_option("--least-slaves", options.least_slaves,
                  "least number of slaves; if fewer are left, the run waits for more instead of going on with the rest "
                  "or alone")
      ->check(whole_number(0, 256))
      ->capture_default_str();
  define_listening(command, options);
  command.add_flag("--master-share", options.share, "let this machine compute a share of the stages, too");
  define_memory_option(
      command, options.memory,
      "largest memory for this machine's share, for example 2GiB (default: 3/4 of the memory available)");
  command.add_option(
      "--shares", options.shares,
      "fixed shares instead of measured speeds: a number for each member, such as 3,2,1, for the slaves in "
      "the order of their names, then for the master");
  command
      .add_option(
          "--wire", options.wire,
          "number type in which maps and gradients travel: fp32, bf16, fp16, or int8 for gradients with bf16 for "
          "maps; sums are in fp32 (default: the plan's, or fp32)")
      ->check(one_of({"fp32", "bf16", "fp16", "int8"}));
  command
      .add_option("--exchange", options.exchange,
                  "star: maps go through the master; ring: maps go from slave to slave (default: the plan's)")
      ->check(one_of({"star", "ring"}));
  command
      .add_option("--layout", options.layout,
                  "what members share: filters of each stage, samples of each batch, or auto for the faster (default: "
                  "auto; with --shares: filters)")
      ->check(one_of({"filters", "samples", "auto"}));
  command
      .add_option("--micro-batch", options.micro_batch,
                  "images that travel together while the next ones are computed; must divide the batch (default: the "
                  "plan's)")
      ->check(whole_number(1, 65536));
  command.add_option(
      "--plan", options.plan,
      "fixed plan: the plan.json of a run with the same number of members; or thesis, an older scheme for comparison, "
      "in which weights and raw maps travel in each step and slaves only convolve");
}

void define_dense(CLI::App& command, ClusterOptions& options) {
  options.dense = DenseBy::automatic;
  command
      .add_option_function<std::string>(
          "--dense",
          [&options](const std::string& word) {
            options.dense = word == "master"    ? DenseBy::master
                            : word == "members" ? DenseBy::members
                                                : DenseBy::automatic;
          },
          "who computes the first dense layer of a training step: the master; the members, each for the maps that it "
          "has; or auto for the faster (default: auto; with --shares, --sync join and --sync none: master)")
      ->check(one_of({"master", "members", "auto"}));
}

void define_meter(CLI::App& command, std::string& meter) {
  command.add_option(
      "--meter", meter,
      "meter that measures the energy of this machine: a name that convoy-slave --list-meters prints, shelly:ADDRESS, "
      "tasmota:ADDRESS, csv:FILE, or none (default: the best for the whole machine, else for the device)");
}

void define_watts(CLI::App& command, EnergyTerms& terms) {
  command
      .add_option("--switch-watts", terms.switch_watts,
                  "power of switches and other network gear in W, which energies include and mark as declared")
      ->check(number(0.0, 1e5));
  command
      .add_option("--assume-watts", terms.assumed_watts,
                  "power in W to assume for each member whose energy cannot be measured and, in plans of train and "
                  "plan, for each machine whose power is not known")
      ->check(number(0.0, 1e5));
}

/// Defines the options for the energy of a run that plans nothing by energy.
void define_energy(CLI::App& command, EnergyOptions& options) {
  define_meter(command, options.meter);
  define_watts(command, options.terms);
}

/// Defines the options for the energy of a plan and of a run.
void define_energy(CLI::App& command, ClusterOptions& options) {
  command
      .add_option_function<std::string>(
          "--objective", [&options](const std::string& word) { options.objective = objective_from(word); },
          "what the planner minimises: time (of a step), energy (of a step), or edp (energy x time)")
      ->check(one_of({"time", "energy", "edp"}))
      ->default_str("time");
  command.add_flag("--idle-off", options.terms.idle_off,
                   "count slaves to which a plan gives no work as switched off; without this option they count with "
                   "their idle power");
  command.add_option(
      "--power-from", options.power_from,
      "calibration.json of an earlier run, from which the planner takes the watts of machines with the same names");
  define_watts(command, options.terms);
}

}  // namespace

namespace {

/// Some versions of CLI11 give this word for an option without its value, others an empty word.
constexpr const char* kNoFolder = "true";

/// The options that need slaves.
constexpr std::array kForSlaves{"least-slaves", "listen",     "insecure", "keys",       "master-share",
                                "memory",       "shares",     "wire",     "exchange",   "layout",
                                "micro-batch",  "plan",       "dense",    "verify",     "objective",
                                "idle-off",     "power-from", "in-turn",  "images-once"};

}  // namespace

RunOptions run_to_take_over(const CLI::App& command, RunOptions run) {
  const CLI::Option& slaves = *command.get_option("--slaves");
  if (slaves.count() > 0 && slaves.as<int>() == 0) {
    for (const char* name : kForSlaves) run.erase(name);
  }
  return run;
}

namespace {

/// Defines --resume FOLDER, which reads the net and all options from the run, and --resume together with NET and --out.
void define_resume(CLI::App& command, TrainOptions& options) {
  command
      .add_option_function<std::string>(
          "--resume",
          [&options](const std::string& word) {
            options.resume = true;
            if (word.empty() || word == kNoFolder) return;
            // If --out gives the folder, the word after --resume may be the net file.
            const bool net = options.net.net.empty() && !options.out.empty();
            if (std::error_code none; net && std::filesystem::is_directory(word, none))
              fail("--resume {}: a run goes on in its own folder; leave out --out {}", word, options.out);
            (net ? options.net.net : options.out) = word;
          },
          "continue the run in this folder from its last checkpoint; its config.yaml has the net and the options")
      ->expected(0, 1)
      ->type_name("FOLDER");
  command.get_option("net")->required(false);
  command.parse_complete_callback([&command, &options] {
    if (options.net.net.empty()) {
      if (!options.resume || options.out.empty()) throw CLI::RequiredError("NET, a net file, or --resume FOLDER");
      options.net.net = options.out + "/config.yaml";
      if (!std::filesystem::exists(options.net.net)) {
        fail("there is no run to resume in {}: the file {} is missing; give --resume the folder of a run", options.out,
             options.net.net);
      }
      take_over(command, run_to_take_over(command, read_net(options.net.net).run));
    }
    options.given = options_given(command);
  });
}

}  // namespace

void define_slaves(CLI::App& command, ClusterOptions& options, const std::string& help) {
  add_slaves_option(command, options, help);
  define_listening(command, options);
}

void define_checkpoints(CLI::App& command, TrainOptions& options) {
  command
      .add_option("--checkpoint-seconds", options.checkpoint_seconds,
                  "longest time between checkpoints on disk, in seconds")
      ->check(number(0.0, 1e9))
      ->capture_default_str();
}

void define_training(CLI::App& command, TrainOptions& options) {
  define_net_settings(command, options.net);
  define_data(command, options.net);
  command
      .add_option("--val-split", options.net.val_split,
                  "fraction of the training images of each class that is set aside, by the seed, to test each epoch "
                  "(default: the data's validation images, or else its test images)")
      ->check(number(0.001, 0.9));
  define(command, options.cluster);
  command.add_option("--epochs", options.epochs, "passes over the training images (default: the net file's)")
      ->check(whole_number(1, 1000000));
  command.add_flag("--images-once", options.cluster.keep_images,
                   "send each image to a slave once, not in every epoch: slaves keep images, and are sent hashes");
  command
      .add_option(
          "--verify", options.cluster.verify,
          "every N steps, compute a slave's filters of one stage again and drop a slave that sent wrong values; "
          "maps go through the master (0: never)")
      ->check(whole_number(0, 1000000000))
      ->capture_default_str();
  command
      .add_option(
          "--snapshot-seconds", options.snapshot_seconds,
          "seconds between the snapshots in memory to which a run falls back when a slave is lost; 0 chooses the time "
          "by the cost of a snapshot")
      ->check(number(0.0, 1e9))
      ->capture_default_str();
  define_meter(command, options.meter);
  define_energy(command, options.cluster);
  define_checkpoints(command, options);
}

void define(CLI::App& command, TrainOptions& options) {
  command.add_option("net", options.net.net, "net file, for example nets/lenet.yaml")->required();
  define_training(command, options);
  define_dense(command, options.cluster);
  command
      .add_option("--steps", options.steps,
                  "write a checkpoint and stop after this step, counted from the start of the run")
      ->check(whole_number(1, 1000000000));
  command.add_option("--out", options.out, "run folder (default: runs/NET-NUMBER)");
  CLI::Option* weights = command.add_option("--weights", options.weights,
                                            "start from these weights (.safetensors) instead of random ones");
  command
      .add_option("--except", options.except,
                  "a layer that starts from random values, not from --weights, such as a new last layer; repeatable")
      ->needs(weights)
      ->allow_extra_args(false);
  command.add_flag("--new-outputs", options.new_outputs,
                   "give the net an output for each class of the data, in a last layer that starts from random values, "
                   "not from --weights");
  define_cache(command, options.cluster);
  define_replicas(command, options);
  define_resume(command, options);
}

void define_running(CLI::App& command, NetOptions& net, ClusterOptions& cluster) {
  define_machine(command, net);
  define_data(command, net);
  define(command, cluster);
}

void define(CLI::App& command, TestOptions& options) {
  define(command, options.net);
  define(command, options.cluster);
  define_energy(command, options.energy);
  command.add_option("--weights", options.weights, "weights of a run (.safetensors)")->required();
  command.parse_complete_callback([&command, &options] {
    take_over(command, read_net(options.net.net, options.net.set).run, {"data", "corrupt", "seed"});
  });
}

void define(CLI::App& command, PredictOptions& options) {
  define_net(command, options.net);
  define(command, options.cluster);
  define_energy(command, options.energy);
  command.add_option("--weights", options.weights, "weights of a run (.safetensors)")->required();
  command.add_option("images", options.images, "JPEG, PNG and WebP files, or folders of them")
      ->required()
      ->check(readable([](const std::string& word) {
        if (word.find('=') == std::string::npos || std::filesystem::exists(std::filesystem::path(word))) return;
        fail("'{}' is not an image; write --set before each field", word);
      }));
  command.add_option("--top", options.top, "number of classes to print for each image")
      ->check(whole_number(1, 65536))
      ->capture_default_str();
}

void define(CLI::App& command, KeyOptions& options) {
  command
      .add_option(
          "action", options.action,
          "add NAME makes a key that one slave has for itself, list shows these keys, revoke NAME locks a slave "
          "out, shared on or off turns the key for all slaves on or off; without an action, the command prints "
          "the key for all slaves")
      ->check(one_of({"add", "list", "revoke", "shared"}));
  command.add_option("name", options.name, "name of the slave for add and revoke; on or off for shared");
  command.add_flag("--once", options.once, "make the key for the first slave that joins with it, and for no other");
  command
      .add_option("--listen", options.listen, "address at which slaves reach the master, for the line that add prints")
      ->capture_default_str();
  command.add_option(
      "--keys", options.keys,
      "key file of a master (default: convoy/master-keys.json in $XDG_CONFIG_HOME or ~/.config, made if it "
      "does not exist)");
  command.add_flag("--make", options.make, "make the file of --keys, with new keys, if it does not exist");
}

void define(CLI::App& command, PlanOptions& options) {
  define(command, options.net);
  define(command, options.cluster);
  define_dense(command, options.cluster);
  define_energy(command, options.cluster);
  command
      .add_option("--calibration", options.calibration,
                  "calibration.json of a run: plan for the machines that the run timed, which need not be present")
      ->excludes("--slaves")
      ->excludes("--shares");
  command
      .add_option("--machines", options.machines,
                  "plan for described machines, which need not be present: COUNTxGFLOPS@MBITS, such as 4x240@1000 or "
                  "100@1000,2x400@1000, with the speed in GFLOP/s and the link, each way, in Mbit/s. Watts may follow, "
                  "/IDLE:COMPUTE:TRANSFER, as in 4x240@1000/5:25:8. The master is like the first machine")
      ->check(readable([](const std::string& text) { machines_from(text); }))
      ->excludes("--calibration")
      ->excludes("--slaves")
      ->excludes("--shares");
}

void expect_slaves_for(const CLI::App& command) {
  const CLI::Option* slaves = command.get_option_no_throw("--slaves");
  if (slaves == nullptr || (slaves->count() > 0 && slaves->as<int>() > 0)) return;
  const bool plans = command.get_name() == "plan";
  std::string instead;  // the option that takes the place of slaves
  for (const char* each : {"--calibration", "--machines"}) {
    if (plans && command.get_option(each)->count() > 0) instead = each;
  }
  const auto has_a_meaning = [&](std::string_view option) {
    if (!instead.empty())
      return option == "--wire" || option == "--exchange" || option == "--layout" || option == "--micro-batch" ||
             option == "--dense" || option == "--plan" || option == "--objective" || option == "--idle-off" ||
             option == "--power-from";
    return plans && option == "--memory";
  };
  for (const char* name : kForSlaves) {
    const std::string option = fmt::format("--{}", name);
    const CLI::Option* given = command.get_option_no_throw(option);
    if (given == nullptr || given->count() == 0 || has_a_meaning(option)) continue;
    if (!instead.empty()) throw UsageError(fmt::format("{} has no effect with {}; leave it out", option, instead));
    throw UsageError(fmt::format("{} needs --slaves; without slaves this machine works alone", option));
  }
}

}  // namespace convoy
