#include "master/commands/resumed_run.hpp"

#include <fmt/ranges.h>

#include <filesystem>

#include "master/commands/run_options.hpp"
#include "master/commands/team.hpp"

namespace convoy {
namespace {

/// The command that trains a new run, beginning with the weights of the run in a folder.
std::string from_weights_of(const std::string& folder) {
  return fmt::format("`convoy-master train {}/config.yaml --weights {}/weights.safetensors --out FOLDER`",
                     shell_word(folder), shell_word(folder));
}

bool has_weights_file(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder + "/weights.safetensors", ignored);
}

TrainingState restore(const TrainOptions& options, const Cut& cut, const RunIdentity& expected,
                      const Observers& observers) {
  std::string notice;
  bool accepted = true;
  const auto accept = [&](const RunIdentity& run) {
    if (run.fingerprint == expected.fingerprint) return;
    accepted = false;
    fail(
        "{}: the run cannot go on with other values: {}; `convoy-master train --resume {}` takes all of them from the "
        "run, and another --out starts a new run",
        options.out, fmt::join(differences(run.fingerprint, expected.fingerprint), ", "), shell_word(options.out));
  };
  TrainingState state;
  try {
    state = read_checkpoint(options.out, cut, notice, accept);
  } catch (const Error& error) {
    if (!accepted || !has_weights_file(options.out)) throw;
    fail("{}; to begin a run with the weights of this one: {}", error.what(), from_weights_of(options.out));
  }
  if (!notice.empty()) {
    for (const auto& observer : observers) observer->on_notice(notice);
  }
  const Progress& at = state.progress;
  if (at.epoch > expected.length.epochs || (at.epoch == expected.length.epochs && at.batch > 0)) {
    fail("{}: the run has done {} epochs and {} batches already; give --epochs {} or more", options.out, at.epoch,
         at.batch, at.epoch + (at.batch > 0 ? 1 : 0));
  }
  if (at.batch > expected.length.batches) {
    fail(
        "{}: the run has done {} batches of an epoch, but its data {} has only {} now; restore the images that are "
        "missing, or start a new run with another --out",
        options.out, at.batch, options.net.data, expected.length.batches);
  }
  return state;
}

}  // namespace

std::string fingerprint(const Net& net, const TrainOptions& options) {
  Net training_only = net;
  // The number of epochs may change, unless the cycles of the learning rate have their length by it.
  if (net.training.cycles == 0) training_only.training.epochs = 0;
  training_only.training.patience = 0;
  training_only.class_names.clear();  // config.yaml has class names and scales, unlike the net file
  training_only.scales.clear();
  training_only.run.clear();
  std::string sync;
  if (options.sync == Sync::none) sync = "sync: none\n";
  if (options.sync == Sync::join) {
    sync = fmt::format("sync: join\nreplicas: {}\nscale-rate: {}\n", replicas_of(options), options.scale_rate);
    if (!has_replicas(options)) sync += "server: distributed\n";
  }
  if (options.sync_every > 0) sync += fmt::format("sync-every: {}\n", options.sync_every);
  if (options.sync_up_to > 0) sync += fmt::format("sync-up-to: {}\n", options.sync_up_to);
  if (!options.outer.is_mean()) {
    sync += fmt::format("outer-momentum: {}\nouter-rate: {}\n", options.outer.momentum, options.outer.rate);
  }
  if (options.net.val_split > 0.0) sync += fmt::format("val-split: {}\n", options.net.val_split);
  return fmt::format("seed: {}\ndata: {}\n{}{}", options.net.seed, place_of_data(options.net.data), sync,
                     to_yaml(training_only));
}

std::string go_on_command(const std::string& command_line, const std::string& folder) {
  return fmt::format("{} train --resume {}", command_line.substr(0, command_line.find(' ')), shell_word(folder));
}

std::optional<TrainingState> state_of(const TrainOptions& options, const Cut& cut, const RunIdentity& expected,
                                      const Observers& observers) {
  if (has_checkpoint(options.out)) return restore(options, cut, expected, observers);
  // A run writes its weights after its first checkpoint, so it had one.
  if (has_weights_file(options.out)) {
    fail(
        "{}: the checkpoints of this run are gone; put checkpoint.safetensors back, or begin a run with its weights: "
        "{}",
        options.out, from_weights_of(options.out));
  }
  if (!std::filesystem::exists(options.out + "/config.yaml")) {
    fail("{} has no run; leave out --resume to start one", options.out);
  }
  return std::nullopt;
}

}  // namespace convoy
