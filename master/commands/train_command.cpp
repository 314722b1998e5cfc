#include <fmt/ranges.h>

#include <filesystem>
#include <optional>

#include "core/exit_code.hpp"
#include "core/files.hpp"
#include "core/stop_signal.hpp"
#include "data/dataset.hpp"
#include "master/cluster/cluster_learner.hpp"
#include "master/commands/load_net.hpp"
#include "master/commands/run_options.hpp"
#include "master/report/plot_observer.hpp"
#include "master/report/record_observers.hpp"
#include "master/report/run_folder.hpp"
#include "master/report/text_observer.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

/// A text of all settings that must be equal for a run to go on from a checkpoint.
std::string fingerprint(const Net& net, const NetOptions& options) {
  Net training_only = net;
  training_only.training.epochs = 0;  // the number of epochs may change
  training_only.training.patience = 0;
  training_only.class_names.clear();  // config.yaml has class names and scales, unlike the net file
  training_only.scales.clear();
  training_only.run.clear();
  return fmt::format("seed: {}\ndata: {}\n{}", options.seed, place_of_data(options.data), to_yaml(training_only));
}

/// The command line that resumes this run: config.yaml in its folder has the net and the options.
std::string go_on_command(const std::string& command_line, const std::string& folder) {
  return fmt::format("{} train --resume {}", command_line.substr(0, command_line.find(' ')), shell_word(folder));
}

TrainingState restore(const TrainOptions& options, const Cut& cut, const std::string& expected,
                      const Observers& observers) {
  std::string notice;
  const TrainingState state = read_checkpoint(options.out, cut, notice, [&](const std::string& fingerprint) {
    if (fingerprint == expected) return;
    fail(
        "{}: the run cannot go on with other values: {}; `convoy-master train --resume {}` takes all of them from the "
        "run, and another --out starts a new run",
        options.out, fmt::join(differences(fingerprint, expected), ", "), shell_word(options.out));
  });
  if (!notice.empty()) {
    for (const auto& observer : observers) observer->on_notice(notice);
  }
  return state;
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
    if (options.resume && options.out.empty()) {
      fail("--resume needs the folder of the run; give --resume FOLDER, or --resume with --out FOLDER");
    }
    // config.yaml needs these values so that the weights can be used with it.
    if (net_.scales.empty()) net_.scales = scales_of(data_);
    if (net_.class_names.empty()) net_.class_names = data_.class_names;
    const int batch = net_.training.batch;
    training_ = std::make_unique<Batches>(data_, Part::training, batch, options.net.seed, net_.augment, net_.scales);
    test_ = std::make_unique<Batches>(data_, Part::test, batch, options.net.seed, Augmentation{}, net_.scales);
    start_ = initial();
    const bool there = !options.out.empty() && std::filesystem::exists(options.out);
    folder_ = options.resume ? options.out : make_run_folder(options.out, net_.name);
    if (!options.resume) unbegun_ = UnbegunRun(folder_, !there);
    net_.run = options.given;
    go_on_ = go_on_command(command_line, folder_);
    write_text(folder_ + "/config.yaml", config(command_line));
    observers_.push_back(make_file_observer(folder_));
    observers_.push_back(make_plot_observer(folder_));
  }

  int run() {
    const std::atomic<bool>& stop = catch_stop_signals();
    auto cluster = Cluster::assemble(options_.cluster, options_.net, net_, cut_, observers_, stop);
    if (!cluster) {
      end({.how = "interrupted", .text = "interrupted while waiting for slaves", .go_on = ""});
      return kInterrupted;
    }
    const Calibration& calibration = cluster->calibration();
    if (!calibration.members.empty()) write_text(folder_ + "/calibration.json", to_json(calibration));
    announce(*cluster);
    return train_and_end(*cluster, stop);
  }

 private:
  std::string config(const std::string& command_line) const {
    return fmt::format("# {}\n{}", command_line, to_yaml(net_));
  }

  TrainingState initial() {
    if (options_.resume) {
      if (has_checkpoint(options_.out)) return restore(options_, cut_, fingerprint_, observers_);
      if (!std::filesystem::exists(options_.out + "/config.yaml")) {
        fail("{} has no run; leave out --resume to start one", options_.out);
      }
      for (const auto& observer : observers_) {
        observer->on_notice(options_.out + ": the run ended before its first checkpoint, so it begins anew");
      }
    }
    ModelState model{initial_trunk(cut_, options_.net.seed), initial_heads(cut_, options_.net.seed)};
    if (!options_.weights.empty()) model = read_weights(options_.weights, cut_, options_.except, std::move(model));
    return {std::make_shared<const ModelState>(std::move(model)), {}};
  }

  void announce(const Cluster& cluster) {
    RunStart start{.net = net_.name,
                   .folder = folder_,
                   .data = options_.net.data,
                   .device = cluster.device().info().description,
                   .parameters = parameter_count(net_),
                   .batch = net_.training.batch,
                   .epochs = net_.training.epochs,
                   .training_images = data_.training.count(),
                   .test_images = data_.test.count(),
                   .first_step = steps_before(start_.progress),
                   .stages = cut_.trunk,
                   .plan = cluster.plan()};
    unbegun_.began();
    for (const auto& observer : observers_) observer->on_start(start);
  }

  long steps_before(const Progress& progress) const {
    return static_cast<long>(progress.epoch) * training_->count() + progress.batch;
  }

  void save(const Cluster& cluster, const TrainingState& state) {
    write_text(folder_ + "/plan.json", to_json(cluster.plan()));
    write_checkpoint(folder_, cut_, state, fingerprint_);
    write_weights(folder_ + "/weights.safetensors", cut_, *state.model, net_);
    for (const auto& observer : observers_) {
      observer->on_checkpoint(folder_ + "/checkpoint.safetensors", steps_before(state.progress));
    }
  }

  /// Saves a checkpoint. If this fails, for example because the disk is full, training goes on.
  void try_to_save(const Cluster& cluster, const TrainingState& state) {
    unsaved_.clear();
    try {
      save(cluster, state);
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
    const Training training{
        .net = net_,
        .training = *training_,
        .test = *test_,
        .seed = options_.net.seed,
        .max_steps = options_.steps,
        .checkpoint_seconds = options_.checkpoint_seconds,
        .stop = stop,
        .save_now = &catch_hangups(),
        .best = best_before(),
        .save_best = [&](const BestEpoch& best, const ModelState& model) { try_to_save_best(best, model); }};
    const std::unique_ptr<Learner> learner = make_learner(cluster);
    try {
      save(cluster, start_);  // makes sure that there is a checkpoint
      const Outcome outcome = train(training, *learner, std::move(start_), observers_,
                                    [&](const TrainingState& state) { try_to_save(cluster, state); });
      if (!unsaved_.empty()) throw Error(unsaved_);
      cluster.dismiss(outcome.interrupted ? "the master was interrupted" : "the run finished");
      end(end_of(outcome));
      return outcome.interrupted ? kInterrupted : kSuccess;
    } catch (const PeerLost& lost) {
      cluster.dismiss("the run ended: " + std::string(lost.what()));
      end({.how = "failed",
           .text = fmt::format("stopped: {}; the last checkpoint is still valid", lost.what()),
           .go_on = go_on_});
      return kSlaveLost;
    } catch (const Error& error) {
      cluster.dismiss("the run ended: " + std::string(error.what()));
      throw;
    }
  }

  RunEnd end_of(const Outcome& outcome) const {
    const long steps = static_cast<long>(net_.training.epochs) * training_->count();
    RunEnd end{.how = "finished",
               .step = outcome.steps,
               .steps = steps,
               .best_epoch = outcome.best.epoch,
               .best_accuracy = outcome.best.accuracy,
               .test_accuracy = outcome.test_accuracy,
               .times = outcome.times,
               .seconds = outcome.seconds};
    if (outcome.interrupted) {
      end.how = "interrupted";
      end.text = fmt::format("interrupted after step {} of {}; a checkpoint was written", outcome.steps, steps);
    } else if (outcome.out_of_patience) {
      end.how = "stopped";
      end.text =
          fmt::format("stopped after epoch {}: for {} epochs the test accuracy has not risen (training.patience)",
                      outcome.progress.epoch, net_.training.patience);
    } else if (outcome.steps < steps) {
      end.how = "stopped";
      end.text = fmt::format("stopped after step {} of {}; a checkpoint was written", outcome.steps, steps);
    }
    if (outcome.interrupted || (outcome.steps < steps && !outcome.out_of_patience)) end.go_on = go_on_;
    return end;
  }

  std::string best_file() const { return folder_ + "/best.safetensors"; }

  /// The best epoch so far of a run that is resumed; none for a new run.
  BestEpoch best_before() {
    if (!options_.resume) return {};
    std::string notice;
    const BestEpoch best = read_best(best_file(), notice);
    for (const auto& observer : observers_) {
      if (!notice.empty()) observer->on_notice(notice);
    }
    return best;
  }

  /// Saves the weights of the best epoch. If this fails, training goes on.
  void try_to_save_best(const BestEpoch& best, const ModelState& model) {
    try {
      write_best(best_file(), cut_, model, net_, best);
    } catch (const Error& error) {
      for (const auto& observer : observers_) {
        observer->on_notice(std::string(error.what()) + "; training goes on without the weights of its best epoch");
      }
    }
  }

  void end(const RunEnd& end) {
    for (const auto& observer : observers_) observer->on_end(end);
  }

  const TrainOptions& options_;
  Net net_;
  Cut cut_;
  DataSet data_;
  UnbegunRun unbegun_;  ///< its files are removed after the observers have closed them
  Observers observers_;
  std::string fingerprint_;
  std::unique_ptr<Batches> training_;
  std::unique_ptr<Batches> test_;
  TrainingState start_;
  std::string folder_;
  std::string go_on_;
  std::string unsaved_;  ///< why the last checkpoint was not written; empty if it was
};

}  // namespace

int train_command(const TrainOptions& options, const std::string& command_line) {
  return TrainCommand(options, command_line).run();
}

}  // namespace convoy
