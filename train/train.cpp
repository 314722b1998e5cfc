#include "train/train.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/error.hpp"
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

BatchLoss train_step(Learner& learner, const Images& images, const Labels& labels, const Pass& pass,
                     const std::function<UpdateStep(double gradient_norm)>& update,
                     const std::function<Progress(const BatchLoss&)>& after) {
  learner.give(images, labels, pass);
  return finish_step(learner, pass.squares, update, after);
}

BatchLoss finish_step(Learner& learner, bool clips, const std::function<UpdateStep(double gradient_norm)>& update,
                      const std::function<Progress(const BatchLoss&)>& after) {
  const BatchLoss loss = learner.take();
  const double squares = clips ? learner.gradient_squares() : 0.0;
  const Progress next = after ? after(loss) : Progress();
  learner.apply(update(std::sqrt(squares)), next);
  return loss;
}

void EvaluationSum::add(const BatchLoss& loss, int count) {
  sum_.sum += loss.sum;
  sum_.correct += loss.correct;
  result_.images += count;
  result_.loss = sum_.sum / result_.images;
  result_.accuracy = static_cast<double>(sum_.correct) / result_.images;
  if (std::isfinite(result_.loss)) return;
  throw Diverged(
      fmt::format("the loss over test images {} to {} is {}: the net computes values that are infinite or NaN",
                  result_.images - count + 1, result_.images, loss.sum / count));
}

Evaluation evaluate(Learner& learner, const Batches& batches, const AfterBatch& after_batch) {
  Images images = batches.blank();
  Labels labels;
  EvaluationSum sum;
  for (int i = 0; i < batches.count(); ++i) {
    const int valid = batches.fill(0, i, images, labels.classes);
    const Tensor& outputs = learner.outputs(images);
    sum.add(learner.test_loss(labels, valid), valid);
    if (after_batch && !after_batch(sum.result(), {outputs, labels.classes, valid})) break;
  }
  return sum.result();
}

namespace {

/// One call of train(): what changes from step to step.
class Loop {
 public:
  Loop(const Training& training, Learner& learner, const Observers& observers, const Save& save)
      : training_(training), learner_(learner), observers_(observers), save_(save), images_(training.training.blank()) {
    outcome_.best = training.best;
  }

  Outcome run(TrainingState start) {
    progress() = start.progress;
    given_ = progress().batch;
    learner_.load(std::move(start));
    for (bool over = false; !over;) {
      try {
        over = advance();
      } catch (const Rewound& rewound) {
        go_back(rewound.to());
      } catch (const PeerLost&) {
        save_kept();
        throw;
      }
    }
    outcome_.interrupted = training_.stop && !done();
    outcome_.out_of_patience = out_of_patience();
    outcome_.steps = steps_done();
    outcome_.seconds = since_start_.seconds();
    return outcome_;
  }

 private:
  Progress& progress() { return outcome_.progress; }
  long steps_at(const Progress& at) const {
    return static_cast<long>(at.epoch) * training_.training.count() + at.batch;
  }
  long steps_done() { return steps_at(progress()); }
  bool out_of_patience() {
    const int patience = training_.net.training.patience;
    return patience > 0 && outcome_.best.epoch > 0 && progress().epoch - outcome_.best.epoch >= patience;
  }
  bool done() { return progress().epoch >= training_.net.training.epochs || out_of_patience(); }
  bool stopped() { return training_.stop || (training_.max_steps > 0 && steps_done() >= training_.max_steps); }
  /// Of all that training is to do.
  long last_step() const {
    const long all = static_cast<long>(training_.net.training.epochs) * training_.training.count();
    return training_.max_steps > 0 ? std::min(all, training_.max_steps) : all;
  }

  /// A step, or the test after an epoch; true when nothing is left to do.
  bool advance() {
    if (finished_) {
      save_snapshot();
      test_epoch();
      return false;
    }
    if (done() || (stopped() && !is_between_models())) {
      if (saved_step_ != steps_done()) save();
      return true;
    }
    step();
    const bool asked = training_.save_now != nullptr && training_.save_now->exchange(false);
    save_due_ = save_due_ || finished_ || asked || since_save_.seconds() > training_.checkpoint_seconds;
    if (save_due_ && !is_between_models()) save();
    return false;
  }

  void save() {
    if (save_) save_state();
    saved_step_ = steps_done();
    save_due_ = false;
    since_save_.restart();
  }

  void save_state() {
    const std::shared_ptr<const ModelState> model = learner_.state();
    add_times(learner_.take_times(), outcome_.times);  // of the last update
    expect_unbroken();
    save_({model, progress()});
    if (finished_ && (training_.save_best || training_.save_snapshot)) ended_ = model;
  }

  /// Saves what the learner has kept since the last checkpoint, when it cannot go on.
  void save_kept() {
    const TrainingState* kept = learner_.kept();
    if (!save_ || kept == nullptr || learner_.broken() || steps_at(kept->progress) <= saved_step_) return;
    saved_step_ = steps_at(kept->progress);
    save_(*kept);
  }

  void go_back(const Progress& to) {
    const long undone = steps_done();
    progress() = to;
    given_ = to.batch;
    // An epoch whose last steps are undone is yet to end.
    if (finished_ && to.epoch <= finished_->epoch) finished_.reset();
    const std::string again =
        undone > steps_done() ? fmt::format("; steps {} to {} are done again", steps_done() + 1, undone) : "";
    for (const auto& observer : observers_)
      observer->on_notice(fmt::format("going on after step {}{}", steps_done(), again));
  }

  /// Where training stands after a step with this loss, before the next epoch begins.
  Progress with(const BatchLoss& loss) {
    Progress next = progress();
    ++next.batch;
    next.epoch_loss += loss.sum;
    next.epoch_correct += loss.correct;
    return next;
  }

  Progress begun(const Progress& ended) const {
    return ended.batch < training_.training.count() ? ended : Progress{.epoch = ended.epoch + 1};
  }

  void step() {
    const Stopwatch watch;
    outcome_.last_test.reset();
    const TrainingOptions& options = training_.net.training;
    const Progress& at = progress();
    const double epoch = at.epoch + static_cast<double>(at.batch) / training_.training.count();
    const double rate = training_.rate_scale * learning_rate(options, epoch);
    give_batches();
    const auto update = [&](double norm) {
      if (!std::isfinite(norm)) {
        throw Diverged(fmt::format("training diverged: gradients of step {} are infinite or NaN", steps_done() + 1));
      }
      return update_step(options, rate, steps_done() + 1, norm);
    };
    const BatchLoss loss = finish_step(learner_, options.clip > 0.0, update, [this](const BatchLoss& each) {
      expect_finite(each);
      return begun(with(each));
    });
    expect_unbroken();
    const double mean = loss.sum / images_.shape().n;
    const Progress done = with(loss);
    progress() = begun(done);
    if (progress().epoch != done.epoch) {
      finished_ = done;
      given_ = 0;
    }
    report_step(done, mean, watch.seconds(), rate);
  }

  /// Whether the learner has batches beyond the last step, or no model of the last step.
  bool is_between_models() { return given_ > progress().batch || !learner_.has_model(); }

  /// Gives the learner the batch of the next step, and more if it computes several at once. Before a save and before
  /// the end it gets no more, so that each batch before them is part of the model, and none after them.
  void give_batches() {
    const Progress& at = progress();
    const bool hold = save_due_ || training_.stop;
    const long left = std::min<long>(training_.training.count() - at.batch, last_step() - steps_done());
    const long wanted = hold ? 1 : std::clamp<long>(1 + learner_.ahead(), 1, std::max(1L, left));
    while (given_ < at.batch + wanted) {
      const long step = steps_at({.epoch = at.epoch, .batch = given_});
      const Pass pass{.training = true,
                      .seed = dropout_seed(training_.seed, step),
                      .squares = training_.net.training.clip > 0.0,
                      .step = step + 1};
      training_.training.fill(at.epoch, given_, images_, labels_.classes);
      Mixture mixture = training_.training.mix(at.epoch, given_, images_, labels_.classes);
      labels_.others = std::move(mixture.others);
      labels_.share = mixture.share;
      if (training_.teach) training_.teach(at.epoch, given_, images_, labels_);
      learner_.give(images_, labels_, pass);
      ++given_;
    }
  }

  /// Before the update of the next step. A loss that is not finite may come from an update that is not known to be
  /// broken yet.
  void expect_finite(const BatchLoss& loss) {
    if (!std::isfinite(loss.sum)) learner_.settle();
    expect_unbroken();
    if (std::isfinite(loss.sum)) return;
    throw Diverged(
        fmt::format("training diverged: the loss of step {} is {}", steps_done() + 1, loss.sum / images_.shape().n));
  }
  void expect_unbroken() const {
    const std::optional<Broken> broken = learner_.broken();
    if (!broken) return;
    throw Diverged(
        fmt::format("training diverged: after step {}, weights of layer {} or their moments are infinite or NaN",
                    broken->step, broken->layer));
  }

  /// `done`: where training stands in the epoch of the step.
  void report_step(const Progress& done, double loss, double seconds, double rate) {
    epoch_seconds_ += seconds;
    ++epoch_steps_;
    const int batch = images_.shape().n;
    const double seen = static_cast<double>(done.batch) * batch;
    const double pace = epoch_seconds_ / epoch_steps_;
    StepReport report{.epoch = done.epoch + 1,
                      .step_in_epoch = done.batch,
                      .steps_per_epoch = training_.training.count(),
                      .step = steps_done(),
                      .loss = loss,
                      .mean_loss = done.epoch_loss / seen,
                      .accuracy = static_cast<double>(done.epoch_correct) / seen,
                      .images_per_second = batch / pace,
                      .seconds = seconds,
                      .seconds_left = pace * static_cast<double>(std::max(0L, last_step() - steps_done())),
                      .learning_rate = rate,
                      .staleness = learner_.staleness(),
                      .times = learner_.take_times()};
    add_times(report.times, outcome_.times);
    if (report.staleness) count_staleness(*report.staleness);
    if (training_.energy) report.energy = training_.energy(report.times, seconds);
    for (const auto& observer : observers_) observer->on_step(report);
  }

  void count_staleness(long staleness) {
    if (!outcome_.staleness) outcome_.staleness.emplace();
    ++stale_steps_;
    outcome_.staleness->mean += (static_cast<double>(staleness) - outcome_.staleness->mean) / stale_steps_;
    outcome_.staleness->most = std::max(outcome_.staleness->most, staleness);
  }

  /// At the end of a cycle of the schedule. An epoch that is repeated after a loss of members saves the same once more.
  void save_snapshot() {
    const int epoch = finished_->epoch + 1;
    const int cycle = cycle_ending_at(training_.net.training, epoch);
    if (cycle == 0 || !training_.save_snapshot) return;
    training_.save_snapshot(cycle, epoch, ended_ ? *ended_ : *learner_.state());
  }

  void test_epoch() {
    const Progress& finished = *finished_;
    const double seen = static_cast<double>(finished.batch) * images_.shape().n;
    const Evaluation test = evaluate(learner_, training_.test);
    expect_unbroken();
    // The split of the members' time is that of training, but the weights that they were sent serve the next step, too.
    for (const MemberTime& time : learner_.take_times()) {
      add_times({{.member = time.member, .states_sent = time.states_sent, .states_received = time.states_received}},
                outcome_.times);
    }
    outcome_.test_accuracy = test.accuracy;
    outcome_.last_test = test;
    EpochReport report{
        .epoch = finished.epoch + 1,
        .step = steps_done(),
        .train_loss = finished.epoch_loss / seen,
        .train_accuracy = static_cast<double>(finished.epoch_correct) / seen,
        .test_loss = test.loss,
        .test_accuracy = test.accuracy,
        .images_per_second = epoch_seconds_ > 0.0 ? images_.shape().n * epoch_steps_ / epoch_seconds_ : 0.0,
        .seconds = since_start_.seconds(),
        .learning_rate = training_.rate_scale * learning_rate(training_.net.training, finished.epoch)};
    if (training_.energy) report.energy = training_.energy({}, 0.0);
    for (const auto& observer : observers_) observer->on_epoch(report);
    compare_with_best({.epoch = report.epoch, .accuracy = test.accuracy});
    epoch_seconds_ = 0.0;
    epoch_steps_ = 0;
    finished_.reset();
  }

  void compare_with_best(const BestEpoch& epoch) {
    if (epoch.accuracy > outcome_.best.accuracy) {
      if (training_.save_best) training_.save_best(epoch, ended_ ? *ended_ : *learner_.state());
      outcome_.best = epoch;
    }
    ended_.reset();
  }

  const Training& training_;
  Learner& learner_;
  const Observers& observers_;
  const Save& save_;
  Images images_;
  Labels labels_;
  Outcome outcome_;
  std::optional<Progress> finished_;         ///< the end of an epoch that is still to be tested
  std::shared_ptr<const ModelState> ended_;  ///< the model at the end of that epoch
  int given_ = 0;                            ///< batches of the epoch that the learner was given
  bool save_due_ = false;
  long saved_step_ = -1;
  int stale_steps_ = 0;  ///< steps of which the staleness was counted
  Stopwatch since_start_;
  Stopwatch since_save_;
  double epoch_seconds_ = 0.0;
  int epoch_steps_ = 0;
};

}  // namespace

Outcome train(const Training& training, Learner& learner, TrainingState start, const Observers& observers,
              const Save& save) {
  // A checkpoint may have been written between an epoch's last step and its end.
  const bool at_its_end = start.progress.batch >= training.training.count();
  if (at_its_end) start.progress = {.epoch = start.progress.epoch + 1};
  return Loop(training, learner, observers, save).run(std::move(start));
}

}  // namespace convoy
