#include <filesystem>
#include <optional>

#include "core/exit_code.hpp"
#include "core/files.hpp"
#include "core/stop_signal.hpp"
#include "data/dataset.hpp"
#include "master/cluster/cluster_learner.hpp"
#include "master/commands/load_net.hpp"
#include "master/report/run_folder.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

/// A text of all settings that must be equal for a run to go on from a checkpoint.
std::string fingerprint(const Net& net, const NetOptions& options) {
  Net training_only = net;
  training_only.training.epochs = 0;  // the number of epochs may change
  training_only.class_names.clear();  // config.yaml has class names and scales, unlike the net file
  training_only.scales.clear();
  return fmt::format("seed {}, data {}\n{}", options.seed, options.data, to_yaml(training_only));
}

/// The command line that resumes this run.
std::string go_on_command(const std::string& command_line, const std::string& folder, const TrainOptions& options) {
  std::string command = command_line;
  if (options.out.empty()) command += " --out " + folder;
  if (!options.resume) command += " --resume";
  return command;
}

/// The model to begin with, and where training stands with it.
struct Start {
  std::shared_ptr<const ModelState> model;
  Progress progress;
};

Start restore(const TrainOptions& options, const Cut& cut, const std::string& expected, const Observers& observers) {
  std::string notice;
  Checkpoint checkpoint = read_checkpoint(options.out, cut, notice);
  if (!notice.empty()) {
    for (const auto& observer : observers) observer->on_notice(notice);
  }
  if (checkpoint.run.fingerprint != expected) {
    fail(
        "{}: the run was started with another net, seed, batch or data set; resume it with the options of its "
        "config.yaml, "
        "or start a new run with another --out",
        options.out);
  }
  return {std::make_shared<const ModelState>(std::move(checkpoint.model)), checkpoint.run.progress};
}

Observers make_observers(const NetOptions& options) {
  Observers observers;
  observers.push_back(options.format == "json" ? make_json_observer() : make_text_observer());
  return observers;
}

/// One call of `convoy-master train`.
class TrainCommand {
 public:
  TrainCommand(const TrainOptions& options, const std::string& command_line)
      : options_(options),
        net_(load_net(options)),
        cut_(cut(net_)),
        data_(open_data(options.net.data, options.net.seed, net_.input, options.net.corrupt)),
        observers_(make_observers(options.net)),
        fingerprint_(fingerprint(net_, options.net)) {
    require_fits(data_, net_);
    for (const auto& observer : observers_) {
      for (const std::string& notice : data_.notices) observer->on_notice(notice);
    }
    if (options.resume && options.out.empty()) fail("--resume needs --out with the folder of the run");
    // config.yaml needs these values so that the weights can be used with it.
    if (net_.scales.empty()) net_.scales = scales_of(data_);
    if (net_.class_names.empty()) net_.class_names = data_.class_names;
    const int batch = net_.training.batch;
    training_ = std::make_unique<Batches>(data_, Part::training, batch, options.net.seed, net_.augment, net_.scales);
    test_ = std::make_unique<Batches>(data_, Part::test, batch, options.net.seed, Augmentation{}, net_.scales);
    start_ = initial();
    folder_ = options.resume ? options.out : make_run_folder(options.out, net_.name);
    go_on_ = go_on_command(command_line, folder_, options);
    write_text(folder_ + "/config.yaml", config(command_line));
    observers_.push_back(make_file_observer(folder_));
    observers_.push_back(make_plot_observer(folder_));
  }

  int run() {
    const std::atomic<bool>& stop = catch_stop_signals();
    auto cluster = Cluster::assemble(options_.cluster, options_.net, net_, cut_, observers_, stop);
    if (!cluster) {
      end({.how = "interrupted while waiting for slaves", .go_on = ""});
      return kInterrupted;
    }
    const Calibration& calibration = cluster->calibration();
    if (!calibration.members.empty()) write_text(folder_ + "/calibration.json", to_json(calibration));
    announce(*cluster);
    return train_and_end(*cluster, stop);
  }

 private:
  std::string config(const std::string& command_line) const {
    return fmt::format("# {}\n# data: {}, seed: {}\n{}", command_line, options_.net.data, options_.net.seed,
                       to_yaml(net_));
  }

  Start initial() {
    if (options_.resume) {
      if (has_checkpoint(options_.out)) return restore(options_, cut_, fingerprint_, observers_);
      if (!std::filesystem::exists(options_.out + "/config.yaml")) {
        fail("{} has no run; leave out --resume to start one", options_.out);
      }
      for (const auto& observer : observers_) {
        observer->on_notice(options_.out + ": the run ended before its first checkpoint, so it begins anew");
      }
    }
    ModelState model = options_.weights.empty()
                           ? ModelState{initial_trunk(cut_, options_.net.seed), initial_heads(cut_, options_.net.seed)}
                           : read_weights(options_.weights, cut_);
    return {std::make_shared<const ModelState>(std::move(model)), {}};
  }

  void announce(const Cluster& cluster) {
    const Position& from = start_.progress.position;
    RunStart start{.net = net_.name,
                   .folder = folder_,
                   .data = options_.net.data,
                   .device = cluster.device().info().description,
                   .parameters = parameter_count(net_),
                   .batch = net_.training.batch,
                   .epochs = net_.training.epochs,
                   .training_images = data_.training.count(),
                   .test_images = data_.test.count(),
                   .first_step = static_cast<long>(from.epoch) * training_->count() + from.batch,
                   .stages = cut_.trunk,
                   .plan = cluster.plan()};
    for (const auto& observer : observers_) observer->on_start(start);
  }

  void save(const Cluster& cluster, const Progress& progress, const ModelState& model) {
    write_text(folder_ + "/plan.json", to_json(cluster.plan()));
    write_checkpoint(folder_, cut_, model, {.progress = progress, .fingerprint = fingerprint_});
    write_weights(folder_ + "/weights.safetensors", cut_, model, net_);
    const Position& at = progress.position;
    for (const auto& observer : observers_) {
      observer->on_checkpoint(folder_ + "/checkpoint.safetensors",
                              static_cast<long>(at.epoch) * training_->count() + at.batch);
    }
  }

  /// Saves a checkpoint. If this fails, for example because the disk is full, training goes on.
  void try_to_save(const Cluster& cluster, const Progress& progress, const ModelState& model) {
    unsaved_.clear();
    try {
      save(cluster, progress, model);
    } catch (const Error& error) {
      unsaved_ = error.what();
      for (const auto& observer : observers_) {
        observer->on_notice(unsaved_ + "; training goes on, and the next checkpoint is tried when it is due");
      }
    }
  }

  std::unique_ptr<Learner> make_learner(Cluster& cluster) const {
    const int batch = net_.training.batch;
    const int threads = options_.net.device_options.threads;
    if (options_.cluster.slaves == 0) return std::make_unique<NetLearner>(cluster.trunk(), cut_, batch, threads);
    return std::make_unique<ClusterLearner>(cluster, cut_, batch, threads, options_.snapshot_seconds);
  }

  int train_and_end(Cluster& cluster, const std::atomic<bool>& stop) {
    const Training training{.net = net_,
                            .training = *training_,
                            .test = *test_,
                            .seed = options_.net.seed,
                            .max_steps = options_.steps,
                            .checkpoint_seconds = options_.checkpoint_seconds,
                            .stop = stop,
                            .save_now = &catch_hangups()};
    const std::unique_ptr<Learner> learner = make_learner(cluster);
    try {
      save(cluster, start_.progress, *start_.model);  // makes sure that there is a checkpoint
      const Outcome outcome =
          train(training, *learner, std::move(start_.model), start_.progress, observers_,
                [&](const Progress& progress, const ModelState& model) { try_to_save(cluster, progress, model); });
      if (!unsaved_.empty()) throw Error(unsaved_);
      cluster.dismiss(outcome.interrupted ? "the master was interrupted" : "the run finished");
      end({.how = outcome.interrupted ? "interrupted; the step was finished and a checkpoint written" : "finished",
           .go_on = outcome.interrupted ? go_on_ : "",
           .test_accuracy = outcome.test_accuracy,
           .times = outcome.times,
           .seconds = outcome.seconds});
      return outcome.interrupted ? kInterrupted : kSuccess;
    } catch (const PeerLost& lost) {
      cluster.dismiss("the run ended: " + std::string(lost.what()));
      end({.how = fmt::format("stopped: {}; the last checkpoint stands", lost.what()), .go_on = go_on_});
      return kSlaveLost;
    } catch (const Error& error) {
      cluster.dismiss("the run ended: " + std::string(error.what()));
      throw;
    }
  }

  void end(const RunEnd& end) {
    for (const auto& observer : observers_) observer->on_end(end);
  }

  const TrainOptions& options_;
  Net net_;
  Cut cut_;
  DataSet data_;
  Observers observers_;
  std::string fingerprint_;
  std::unique_ptr<Batches> training_;
  std::unique_ptr<Batches> test_;
  Start start_;
  std::string folder_;
  std::string go_on_;
  std::string unsaved_;  ///< why the last checkpoint was not written; empty if it was
};

}  // namespace

int train_command(const TrainOptions& options, const std::string& command_line) {
  return TrainCommand(options, command_line).run();
}

}  // namespace convoy
