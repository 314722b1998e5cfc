#include "train/train.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/random.hpp"
#include "core/stopwatch.hpp"

namespace convoy {
namespace {

/// Streams of the run's seed from which each step draws the seed of its dropout masks.
constexpr std::uint64_t kDropoutStream = std::uint64_t{2} << 32;

std::uint64_t dropout_seed(std::uint64_t seed, long step) {
  Random random(seed, kDropoutStream + static_cast<std::uint64_t>(step));
  const std::uint64_t high = random.next();
  return (high << 32) | random.next();
}

}  // namespace

void add_times(const std::vector<MemberTime>& times, std::vector<MemberTime>& sums) {
  for (const MemberTime& time : times) {
    auto sum = std::ranges::find(sums, time.member, &MemberTime::member);
    if (sum == sums.end()) sum = sums.insert(sum, {.member = time.member});
    sum->compute += time.compute;
    sum->transfer += time.transfer;
    sum->wait += time.wait;
  }
}

ModelState state_of(Model model) { return {model.trunk.snapshot(), model.heads.states()}; }

void load(Model model, const ModelState& state) {
  model.trunk.load(state.trunk);
  model.heads.load(state.head);
}

Head<float>::Loss train_step(Model model, const Tensor& images, const std::vector<int>& labels, const Pass& pass,
                             const std::function<UpdateStep(double gradient_norm)>& update) {
  Head<float>::Loss loss;
  model.trunk.begin(images, pass);
  while (const auto samples = model.trunk.next_outputs()) {
    model.heads.forward(model.trunk.outputs(), pass, *samples);
    const Head<float>::Loss part = model.heads.loss(labels, images.shape().n, *samples);
    loss.sum += part.sum;
    loss.correct += part.correct;
    model.trunk.backward(model.heads.backward(*samples), *samples);
  }
  model.heads.backward_weights();
  const double squares = pass.squares ? model.trunk.gradient_squares() + model.heads.gradient_squares() : 0.0;
  const UpdateStep step = update(std::sqrt(squares));
  model.trunk.update(step);
  model.heads.update(step);
  model.trunk.finish();
  return loss;
}

Evaluation evaluate(Model model, const Batches& batches) {
  Tensor images(batches.image_shape());
  std::vector<int> labels;
  Head<float>::Loss sum;
  int seen = 0;
  for (int i = 0; i < batches.count(); ++i) {
    const int valid = batches.fill(0, i, images, labels);
    model.trunk.forward(images, {});
    model.heads.forward(model.trunk.outputs(), {});
    const Head<float>::Loss loss = model.heads.loss(labels, valid);
    sum.sum += loss.sum;
    sum.correct += loss.correct;
    seen += valid;
  }
  return {sum.sum / seen, static_cast<double>(sum.correct) / seen};
}

namespace {

/// One call of train(): what changes from step to step.
class Loop {
 public:
  /// Where to go on from after a loss.
  struct Kept {
    ModelState model;
    Progress progress;
  };

  Loop(const Training& training, Model model, Kept from, const Observers& observers, const Save& save)
      : training_(training),
        trunk_(&model.trunk),
        heads_(model.heads),
        observers_(observers),
        save_(save),
        images_(training.training.image_shape()),
        kept_(std::move(from)) {
    outcome_.progress = kept_.progress;
  }

  Outcome run() {
    bool loaded = false;
    bool over = false;
    while (!over) {
      try {
        if (!std::exchange(loaded, true)) {
          load(model(), kept_.model);
          drop_unneeded();
        }
        over = advance();
      } catch (const PeerLost& lost) {
        if (!training_.recover) throw;
        recover(lost);
      }
    }
    outcome_.interrupted = training_.stop;
    outcome_.seconds = since_start_.seconds();
    return outcome_;
  }

 private:
  Model model() { return {*trunk_, heads_}; }
  Position& position() { return outcome_.progress.position; }
  long steps_done() { return static_cast<long>(position().epoch) * training_.training.count() + position().batch; }
  bool stopped() { return training_.stop || (training_.max_steps > 0 && steps_done() >= training_.max_steps); }

  /// A step, or an epoch's end; true when nothing is left to do.
  bool advance() {
    if (position().batch == training_.training.count()) {
      end_epoch();
    } else if (finished_) {
      test_epoch();
    } else if (position().epoch >= training_.net.training.epochs || stopped()) {
      if (saved_step_ != steps_done()) save();
      return true;
    } else {
      if (training_.members_change && training_.members_change()) regroup();
      step();
      const bool asked = training_.save_now != nullptr && training_.save_now->exchange(false);
      if (asked || since_save_.seconds() > training_.checkpoint_seconds) {
        save();
      } else if (training_.recover) {
        keep_in_the_background();
      }
    }
    return false;
  }

  void save() {
    keep();
    save_(outcome_.progress, kept_.model);
    drop_unneeded();
    saved_step_ = steps_done();
    since_save_.restart();
  }

  // ---- losses ------------------------------------------------------------------------------------------------------

  /// Where nothing falls back to it, a second model would only take memory.
  void drop_unneeded() {
    if (!training_.recover) kept_.model = {};
  }

  void keep() {
    kept_ = {state_of(model()), outcome_.progress};
    pending_.reset();
    since_kept_.restart();
  }

  /// Begins a snapshot when it is time for one, and takes it when it is whole.
  void keep_in_the_background() {
    if (pending_) {
      auto trunk = trunk_->take_snapshot();
      if (!trunk) return;
      pending_->model.trunk = *std::move(trunk);
      kept_ = *std::exchange(pending_, std::nullopt);
      keep_seconds_ = since_kept_.seconds();
    } else if (since_kept_.seconds() > keep_after()) {
      trunk_->begin_snapshot();
      pending_ = Kept{{{}, heads_.states()}, outcome_.progress};
      since_kept_.restart();
    }
  }

  /// Seconds between snapshots for which these and the steps done again cost least together: the root of twice a
  /// snapshot's cost times the time between two losses (Young 1974). A loss an hour is taken for granted. A snapshot
  /// travels while steps go on, which it slows down by an eighth of its time at most: so much is taken for its cost.
  double keep_after() const {
    if (training_.snapshot_seconds > 0.0) return training_.snapshot_seconds;
    constexpr double kSlowdown = 1.0 / 8.0;
    const double between_losses = (3600.0 + since_start_.seconds()) / (1.0 + losses_);
    return std::sqrt(2.0 * kSlowdown * keep_seconds_ * between_losses);
  }

  /// With whoever is left, from the last snapshot on.
  void recover(PeerLost lost) {
    pending_.reset();
    while (true) {
      ++losses_;
      try {
        trunk_ = &training_.recover(lost);
        load(model(), kept_.model);
        break;
      } catch (const PeerLost& next) {
        lost = next;
      }
    }
    const long undone = steps_done();
    outcome_.progress = kept_.progress;
    const std::string again =
        undone > steps_done() ? fmt::format("; steps {} to {} are done again", steps_done() + 1, undone) : "";
    for (const auto& observer : observers_)
      observer->on_notice(fmt::format("going on after step {}{}", steps_done(), again));
  }

  void regroup() {
    keep();
    trunk_ = &training_.regroup();
    load(model(), kept_.model);
  }

  void step() {
    const Stopwatch watch;
    const TrainingOptions& options = training_.net.training;
    const double epoch = position().epoch + static_cast<double>(position().batch) / training_.training.count();
    const double rate = learning_rate(options, epoch);
    const Pass pass{
        .training = true, .seed = dropout_seed(training_.seed, steps_done()), .squares = options.clip > 0.0};
    training_.training.fill(position().epoch, position().batch, images_, labels_);
    const auto loss = train_step(model(), images_, labels_, pass, [&](double gradient_norm) {
      return update_step(options, rate, steps_done() + 1, gradient_norm);
    });
    const double mean = loss.sum / images_.shape().n;
    if (!std::isfinite(mean)) {
      fail("training diverged: the loss of step {} is {}; try a smaller --set training.learning_rate (it is {:g})",
           steps_done() + 1, mean, rate);
    }
    ++position().batch;
    outcome_.progress.epoch_loss += loss.sum;
    outcome_.progress.epoch_correct += loss.correct;
    report_step(mean, watch.seconds(), rate);
  }

  void report_step(double loss, double seconds, double rate) {
    epoch_seconds_ += seconds;
    ++epoch_steps_;
    const int batch = images_.shape().n;
    const double seen = static_cast<double>(position().batch) * batch;
    const long steps_left =
        static_cast<long>(training_.net.training.epochs) * training_.training.count() - steps_done();
    const double pace = epoch_seconds_ / epoch_steps_;
    StepReport report{.epoch = position().epoch + 1,
                      .step_in_epoch = position().batch,
                      .steps_per_epoch = training_.training.count(),
                      .step = steps_done(),
                      .loss = loss,
                      .mean_loss = outcome_.progress.epoch_loss / seen,
                      .accuracy = static_cast<double>(outcome_.progress.epoch_correct) / seen,
                      .images_per_second = batch / pace,
                      .seconds = seconds,
                      .seconds_left = pace * static_cast<double>(steps_left),
                      .learning_rate = rate,
                      .times = trunk_->take_times()};
    add_times(report.times, outcome_.times);
    for (const auto& observer : observers_) observer->on_step(report);
  }

  void end_epoch() {
    const Progress finished = outcome_.progress;
    outcome_.progress = {.position = {finished.position.epoch + 1, 0}};
    save();
    finished_ = finished;
  }

  void test_epoch() {
    const Progress& finished = *finished_;
    const double seen = static_cast<double>(finished.position.batch) * images_.shape().n;
    const Evaluation test = evaluate(model(), training_.test);
    trunk_->take_times();  // the split of the members' time is that of training
    outcome_.test_accuracy = test.accuracy;
    const EpochReport report{
        .epoch = position().epoch,
        .step = steps_done(),
        .train_loss = finished.epoch_loss / seen,
        .train_accuracy = static_cast<double>(finished.epoch_correct) / seen,
        .test_loss = test.loss,
        .test_accuracy = test.accuracy,
        .images_per_second = epoch_seconds_ > 0.0 ? images_.shape().n * epoch_steps_ / epoch_seconds_ : 0.0,
        .seconds = since_start_.seconds(),
        .learning_rate = learning_rate(training_.net.training, finished.position.epoch)};
    for (const auto& observer : observers_) observer->on_epoch(report);
    epoch_seconds_ = 0.0;
    epoch_steps_ = 0;
    finished_.reset();
  }

  const Training& training_;
  Trunk* trunk_;  ///< another one after a loss
  Heads& heads_;
  const Observers& observers_;
  const Save& save_;
  Tensor images_;
  std::vector<int> labels_;
  Kept kept_;
  Outcome outcome_;
  Stopwatch since_start_;
  Stopwatch since_save_;
  double epoch_seconds_ = 0.0;
  int epoch_steps_ = 0;
  long saved_step_ = -1;
  std::optional<Progress> finished_;  ///< the end of an epoch that is still to be tested
  Stopwatch since_kept_;
  std::optional<Kept> pending_;  ///< a snapshot on its way
  double keep_seconds_ = 0.0;    ///< that the last one took to come
  int losses_ = 0;
};

}  // namespace

Outcome train(const Training& training, Model model, ModelState start, const Progress& from, const Observers& observers,
              const Save& save) {
  return Loop(training, model, {std::move(start), from}, observers, save).run();
}

}  // namespace convoy
