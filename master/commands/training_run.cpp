#include "master/commands/training_run.hpp"

#include <fmt/ranges.h>

#include <filesystem>
#include <utility>

#include "core/exit_code.hpp"
#include "core/stop_signal.hpp"
#include "devices/paced_device.hpp"
#include "master/cluster/learned_power.hpp"
#include "master/commands/load_net.hpp"
#include "master/commands/resumed_run.hpp"
#include "master/commands/run_options.hpp"
#include "master/report/plot_observer.hpp"
#include "master/report/record_observers.hpp"

namespace convoy {
namespace {

std::shared_ptr<const DataSet> opened(const TrainOptions& options, const Net& net) {
  return std::make_shared<const DataSet>(load_data(options.net, options.net.seed, net));
}

/// Sentences for people on what a run trains and on which images.
std::vector<std::string> facts_of(const TrainOptions& options, const Net& net, const DataSet& data, int batch) {
  std::vector<std::string> facts;
  std::vector<std::string> frozen;
  for (const Layer& layer : net.layers) {
    if (has_weights(layer) && layer.rate == 0.0F) frozen.push_back(layer.name);
  }
  constexpr std::size_t kMostNamed = 6;
  if (frozen.size() > kMostNamed) {
    facts.push_back(fmt::format("{} layers are frozen, from {} to {}", frozen.size(), frozen.front(), frozen.back()));
  } else if (!frozen.empty()) {
    facts.push_back(fmt::format("frozen layers: {}", fmt::join(frozen, ", ")));
  }
  if (!data.labelled) {
    facts.push_back(
        "the training images have no classes; accuracy in training is the fraction of them for which the net names the "
        "teacher's class");
  }
  if (data.validation.count() > 0) {
    facts.push_back(
        fmt::format("each epoch is tested on {} images for validation; the {} test images are left for "
                    "`convoy-master test`",
                    data.validation.count(), data.test.count()));
  }
  constexpr double kMuchMomentum = 0.5;
  const double momentum = net.training.momentum;
  if (options.sync == Sync::none && replicas_of(options) > 1 && net.training.optimizer != Optimizer::adam &&
      momentum > kMuchMomentum) {
    facts.push_back(
        fmt::format("gradients of older weights act like more momentum, so training by --sync none with a momentum of "
                    "{:.3g} may diverge; if the loss does not fall, give --set training.momentum={:.3g} or less",
                    momentum, momentum / 2));
  }
  if (const int left = data.training.count() % batch; left > 0) {
    facts.push_back(
        fmt::format("each epoch leaves out {} of {} training images, different ones each time, because the last batch "
                    "would not be full",
                    left, data.training.count()));
  }
  return facts;
}

/// Images without classes get those that the teacher finds most probable.
void take_classes(Labels& labels) {
  for (std::size_t n = 0; n < labels.classes.size(); ++n) {
    const Tensor& soft = labels.soft;
    labels.classes[n] = index_of_largest<float>(soft.sample(static_cast<int>(n)));
  }
}

/// Throws Error for options that need values, where the device computes none.
void expect_no_values_wanted(const TrainOptions& options) {
  const auto refuse = [&](bool given, const char* option) {
    if (!given) return;
    fail(
        "{} has no meaning with --device {}: a run on a paced device computes nothing, and saves no weights, "
        "checkpoints or snapshots; leave it out",
        option, options.net.device);
  };
  refuse(options.resume, "--resume");
  refuse(!options.weights.empty(), "--weights");
  refuse(options.cluster.verify > 0, "--verify");
  refuse(options.given.contains("checkpoint-seconds"), "--checkpoint-seconds");
  refuse(options.given.contains("snapshot-seconds"), "--snapshot-seconds");
}

}  // namespace

std::string paced_device(const NetOptions& options) { return is_paced(options.device) ? options.device : ""; }

TrainingRun::TrainingRun(const TrainOptions& options, const std::string& command_line, Parts parts)
    : options_(options),
      net_(with_absolute_teachers(load_net(options))),
      cut_(cut(net_)),
      data_(parts.data ? std::move(parts.data) : opened(options, net_)),
      observers_(std::move(parts.observers)),
      paced_(paced_device(options.net)),
      energy_({.meter = options.meter, .terms = options.cluster.terms}),
      fingerprint_(fingerprint(net_, options)),
      door_(std::move(parts.door)),
      stop_(parts.stop) {
  except_ = options.except;
  if (options.new_outputs) take_new_outputs();
  require_fits(*data_, net_);
  require_labels(*data_, net_);
  expect_trainable(options, net_);
  expect_cacheable(options, net_, cut_);
  if (!paced_.empty()) expect_no_values_wanted(options);
  for (const std::string& text : data_->notices) notice(observers_, text);
  if (options.resume && options.out.empty()) {
    fail("--resume needs the folder of the run; give --resume FOLDER, or --resume with --out FOLDER");
  }
  // config.yaml needs these values so that the weights can be used with it.
  if (net_.scales.empty()) net_.scales = scales_of(*data_);
  if (net_.class_names.empty()) net_.class_names = data_->class_names;
  const int batch = images_in_step();
  training_ = std::make_unique<Batches>(*data_, Part::training, batch, options.net.seed, net_.augment, net_.scales);
  const int tested = net_.training.batch * replicas_of(options);  // replicas share a test
  test_ = std::make_unique<Batches>(*data_, Part::validation, tested, options.net.seed, Augmentation{}, net_.scales);
  teachers_ = std::make_unique<Teachers>(net_, options_.net, batch);
  fingerprint_ += teachers_->fingerprint();
  for (const std::string& text : facts_of(options_, net_, *data_, batch)) notice(observers_, text);
  start_ = initial();
  const bool there = !options.out.empty() && std::filesystem::exists(options.out);
  const std::string folder = options.resume ? options.out : make_run_folder(options.out, net_.name);
  if (!options.resume) unbegun_ = UnbegunRun(folder, !there);
  net_.run = options.given;
  go_on_ = go_on_command(command_line, folder);
  files_ = std::make_unique<RunFiles>(folder, cut_, net_, observers_);
  config_ = config(command_line);
  if (!options.resume) files_->keep("config.yaml", config_);
  observers_.push_back(make_file_observer(folder, paced_));
  if (paced_.empty() && parts.curves) observers_.push_back(make_plot_observer(folder));
}

/// Gives the net an output for each class of the data. The layers that make them begin with random weights.
void TrainingRun::take_new_outputs() {
  for (const std::string& layer : layers_of_outputs(net_)) except_.push_back(layer);
  TrainOptions changed = options_;
  for (const std::string& override : overrides_for_outputs(net_, data_->classes)) changed.net.set.push_back(override);
  net_ = load_net(changed);
  net_.class_names.clear();  // the data have the names
  cut_ = cut(net_);
  fingerprint_ = fingerprint(net_, options_);
}

RungEnd TrainingRun::run_rung() {
  RungEnd rung;
  rung_ = &rung;
  if (run() == kInterrupted) rung.interrupted = true;
  rung_ = nullptr;
  return rung;
}

int TrainingRun::run() {
  const std::atomic<bool>& stop = stop_ != nullptr ? *stop_ : catch_stop_signals();
  // Slaves that come through a door of their own come once. With port 0 they would not find the run again at its next
  // port.
  const bool by_slaves =
      options_.cluster.slaves > 0 && door_.network == &wire::tcp_network() && !options_.cluster.listen.ends_with(":0");
  const Teachers::Place place{
      .data = *data_, .folder = files_->folder(), .slaves = by_slaves ? &options_.cluster : nullptr};
  if (!teachers_->begin(place, observers_, stop)) {
    end({.how = "interrupted", .text = "interrupted while the teacher computed", .go_on = ""});
    return kInterrupted;
  }
  const auto team = Team::assemble(options_, net_, cut_, observers_, stop, door_);
  if (!team) {
    end({.how = "interrupted", .text = "interrupted while waiting for slaves", .go_on = ""});
    return kInterrupted;
  }
  const Calibration& calibration = team->calibration();
  if (!calibration.members.empty()) files_->keep("calibration.json", to_json(calibration));
  announce(*team);
  return train_and_end(*team, stop);
}

/// The images of a step of the training loop.
int TrainingRun::images_in_step() const { return net_.training.batch * batches_in_step(options_); }

/// Keeps what the meters told of the machines' power, so that later plans can count joules.
void TrainingRun::keep_power(const Team& team, const EnergyReport& energy) {
  Calibration calibration = team.calibration();
  if (calibration.members.empty()) return;
  learn_power(calibration, energy.members);
  files_->keep("calibration.json", to_json(calibration));
}

std::string TrainingRun::config(const std::string& command_line) const {
  const std::string mark = paced_.empty() ? "" : fmt::format("# {}: a measurement; nothing was computed\n", paced_);
  return fmt::format("# {}\n{}{}", command_line, mark, to_yaml(net_));
}

RunIdentity TrainingRun::identity() const {
  return {.fingerprint = fingerprint_,
          .length = {.epochs = net_.training.epochs, .batches = training_->count(), .images = images_in_step()}};
}

TrainingState TrainingRun::initial() {
  if (options_.resume) {
    if (auto state = state_of(options_, cut_, identity(), observers_)) return std::move(*state);
    for (const auto& observer : observers_) {
      observer->on_notice(options_.out + ": the run ended before its first checkpoint, so it begins anew");
    }
  }
  ModelState model{initial_trunk(cut_, options_.net.seed), initial_heads(cut_, options_.net.seed)};
  if (!options_.weights.empty()) model = read_weights(options_.weights, cut_, except_, std::move(model));
  return {std::make_shared<const ModelState>(std::move(model)), {}};
}

void TrainingRun::announce(const Team& team) {
  RunStart start{.net = net_.name,
                 .folder = files_->folder(),
                 .data = options_.net.data,
                 .device = team.device().info().description,
                 .paced = paced_,
                 .parameters = parameter_count(net_),
                 .batch = images_in_step(),
                 .epochs = net_.training.epochs,
                 .training_images = data_->training.count(),
                 .test_images = data_->validation.count() > 0 ? data_->validation.count() : data_->test.count(),
                 .first_step = steps_of(start_.progress, identity().length),
                 .stages = team.stages(),
                 .plan = team.plan(),
                 .replicas = has_replicas(options_) ? replicas_of(options_) : 0,
                 .other_replicas = team.other_plans()};
  unbegun_.began();
  // Options with which a run cannot go on must not replace those with which it can.
  if (options_.resume) files_->keep("config.yaml", config_);
  for (const auto& observer : observers_) observer->on_start(start);
}

SavedState TrainingRun::saved(const Team& team, const TrainingState& state) const {
  return {.state = state, .run = identity(), .plan = to_json(team.plan())};
}

int TrainingRun::train_and_end(Team& team, const std::atomic<bool>& stop) {
  Training training{.net = net_,
                    .training = *training_,
                    .test = *test_,
                    .seed = options_.net.seed,
                    .rate_scale = options_.scale_rate ? batches_in_step(options_) - options_.backups : 1.0,
                    .max_steps = options_.steps,
                    .checkpoint_seconds = options_.checkpoint_seconds,
                    .stop = stop,
                    .save_now = &catch_hangups(),
                    .energy =
                        [&](const std::vector<MemberTime>& times, double seconds) {
                          if (seconds > 0) energy_.count(times, seconds, team.is_alone());
                          return energy_.report(team.energies());
                        },
                    .best = options_.resume ? files_->best_before() : BestEpoch{},
                    .save_best = {}};
  if (teachers_->any()) {
    training.teach = [&](int epoch, int index, const Images& images, Labels& labels) {
      teachers_->teach(*training_, epoch, index, images, labels);
      if (!data_->labelled) take_classes(labels);
    };
  }
  Save save;
  if (paced_.empty()) {
    training.save_best = [&](const BestEpoch& best, const ModelState& model) { files_->try_to_save_best(best, model); };
    training.save_snapshot = [&](int cycle, int epoch, const ModelState& model) {
      files_->try_to_save_snapshot(cycle, epoch, model);
    };
    save = [&](const TrainingState& state) { files_->try_to_save(saved(team, state)); };
  }
  const std::unique_ptr<Learner> learner = team.make_learner();
  energy_.begin(is_gpu(team.device().info().name));
  try {
    if (paced_.empty()) {
      files_->save(saved(team, start_));  // makes sure that there is a checkpoint
    } else {
      files_->keep("plan.json", to_json(team.plan()));
    }
    keep_missed_snapshot();
    const Outcome outcome = train(training, *learner, std::move(start_), observers_, save);
    if (rung_ != nullptr) {
      *rung_ = {.interrupted = outcome.interrupted, .steps = outcome.steps};
      if (!outcome.interrupted) rung_->tested = outcome.last_test ? *outcome.last_test : evaluate(*learner, *test_);
      rung_->images = team.image_bytes();
    }
    const EnergyReport energy = energy_.report(team.energies());
    keep_power(team, energy);
    team.dismiss(outcome.interrupted ? "the master was interrupted" : "the run finished");
    files_->finish(stop);
    RunEnd over = end_of(outcome, team.verified());
    over.energy = energy;
    end(over);
    return outcome.interrupted ? kInterrupted : kSuccess;
  } catch (const PeerLost& lost) {
    team.dismiss("the run ended: " + std::string(lost.what()));
    files_->finish(stop);
    if (rung_ != nullptr) throw;
    end({.how = "failed", .text = fmt::format("stopped: {}; {}", lost.what(), what_is_left()), .go_on = go_on()});
    return kSlaveLost;
  } catch (const Diverged& diverged) {
    team.dismiss("the run ended: " + std::string(diverged.what()));
    files_->finish(stop);
    if (rung_ != nullptr) {
      *rung_ = {.diverged = diverged.what()};
      end({.how = "failed", .text = diverged.what(), .go_on = ""});
      return kFailure;
    }
    if (files_->saved_step() < 0) throw;
    throw Error(fmt::format("{}; {}", diverged.what(), after_divergence()));
  } catch (const Error& error) {
    team.dismiss("the run ended: " + std::string(error.what()));
    throw;
  }
}

/// A run that ended between the checkpoint at the end of a cycle and the snapshot of it has the weights in the
/// checkpoint.
void TrainingRun::keep_missed_snapshot() {
  const Progress& at = start_.progress;
  if (!paced_.empty() || at.epoch == 0 || at.batch > 0) return;
  const int cycle = cycle_ending_at(net_.training, at.epoch);
  if (cycle > 0 && !files_->has_snapshot(cycle)) files_->try_to_save_snapshot(cycle, at.epoch, *start_.model);
}

/// Names the last checkpoint, and the command that trains on from its weights.
std::string TrainingRun::after_divergence() const {
  const double rate = net_.training.learning_rate;
  return fmt::format(
      "{}/checkpoint.safetensors of step {} is the last checkpoint, and its values are finite; to train on from its "
      "weights, give the same command with another --out, --weights {}/weights.safetensors and a lower learning "
      "rate, such as --set training.learning_rate={:g} (it is {:g}), or clip gradients with --set training.clip",
      files_->folder(), files_->saved_step(), shell_word(files_->folder()), rate / 10.0, rate);
}

RunEnd TrainingRun::end_of(const Outcome& outcome, long verified) const {
  const long steps = static_cast<long>(net_.training.epochs) * training_->count();
  RunEnd end{.how = "finished",
             .step = outcome.steps,
             .steps = steps,
             .best_epoch = outcome.best.epoch,
             .best_accuracy = outcome.best.accuracy,
             .test_accuracy = outcome.test_accuracy,
             .times = outcome.times,
             .staleness = outcome.staleness,
             .seconds = outcome.seconds,
             .verified = verified};
  if (outcome.interrupted) {
    end.how = "interrupted";
    end.text = fmt::format("interrupted after step {} of {}{}", outcome.steps, steps, written());
  } else if (outcome.out_of_patience) {
    end.how = "stopped";
    end.text = fmt::format("stopped after epoch {}: for {} epochs the test accuracy has not risen (training.patience)",
                           outcome.progress.epoch, net_.training.patience);
  } else if (outcome.steps < steps) {
    end.how = "stopped";
    end.text = fmt::format("stopped after step {} of {}{}", outcome.steps, steps, written());
  }
  if (outcome.interrupted || (outcome.steps < steps && !outcome.out_of_patience)) end.go_on = go_on();
  return end;
}

/// The command that resumes the run; a run on a paced device cannot go on.
std::string TrainingRun::go_on() const { return paced_.empty() ? go_on_ : ""; }
std::string TrainingRun::what_is_left() const {
  if (!paced_.empty()) return "a run on paced devices has no checkpoint to go on from";
  return fmt::format("the last checkpoint is that of step {}", files_->saved_step());
}
const char* TrainingRun::written() const { return paced_.empty() ? "; a checkpoint was written" : ""; }

void TrainingRun::end(const RunEnd& end) {
  for (const auto& observer : observers_) observer->on_end(end);
}

}  // namespace convoy
