#include "master/train.hpp"

#include <cmath>

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

void add_times(const std::vector<MemberTime>& times, std::vector<MemberTime>& sums) {
  sums.resize(times.size());
  for (std::size_t m = 0; m < times.size(); ++m) {
    sums[m].member = times[m].member;
    sums[m].compute += times[m].compute;
    sums[m].transfer += times[m].transfer;
    sums[m].wait += times[m].wait;
  }
}

}  // namespace

ModelState state_of(Model model) { return {model.trunk.snapshot(), model.head.states()}; }

void load(Model model, const ModelState& state) {
  model.trunk.load(state.trunk);
  model.head.states() = state.head;
}

Head<float>::Loss train_step(Model model, const Tensor& images, const std::vector<int>& labels, const Pass& pass,
                             const SgdStep& sgd) {
  model.head.forward(model.trunk.forward(images, pass), pass);
  const Head<float>::Loss loss = model.head.loss(labels, images.shape().n);
  model.trunk.backward(model.head.backward());
  model.trunk.update(sgd);
  model.head.update(sgd);
  return loss;
}

Evaluation evaluate(Model model, const Batches& batches) {
  Tensor images(batches.image_shape());
  std::vector<int> labels;
  Head<float>::Loss sum;
  int seen = 0;
  for (int i = 0; i < batches.count(); ++i) {
    const int valid = batches.fill(0, i, images, labels);
    model.head.forward(model.trunk.forward(images, {}), {});
    const Head<float>::Loss loss = model.head.loss(labels, valid);
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
  Loop(const Training& training, Model model, const Progress& from, const Observers& observers,
       const std::function<void(const Progress&)>& save)
      : training_(training),
        model_(model),
        observers_(observers),
        save_(save),
        images_(training.training.image_shape()) {
    outcome_.progress = from;
  }

  Outcome run() {
    while (position().epoch < training_.net.training.epochs && !stopped()) {
      step();
      if (position().batch == training_.training.count()) end_epoch();
      if (since_save_.seconds() > training_.checkpoint_seconds) save();
    }
    outcome_.interrupted = training_.stop;
    outcome_.seconds = since_start_.seconds();
    if (saved_step_ != steps_done()) save();
    return outcome_;
  }

 private:
  Position& position() { return outcome_.progress.position; }
  long steps_done() { return static_cast<long>(position().epoch) * training_.training.count() + position().batch; }
  bool stopped() { return training_.stop || (training_.max_steps > 0 && steps_done() >= training_.max_steps); }

  void save() {
    save_(outcome_.progress);
    saved_step_ = steps_done();
    since_save_.restart();
  }

  void step() {
    const Stopwatch watch;
    const TrainingOptions& options = training_.net.training;
    const double epoch = position().epoch + static_cast<double>(position().batch) / training_.training.count();
    const double rate = learning_rate(options, epoch);
    const SgdStep sgd{.learning_rate = static_cast<float>(rate),
                      .momentum = static_cast<float>(options.momentum),
                      .weight_decay = static_cast<float>(options.weight_decay)};
    const Pass pass{.training = true, .seed = dropout_seed(training_.seed, steps_done())};
    training_.training.fill(position().epoch, position().batch, images_, labels_);
    const auto loss = train_step(model_, images_, labels_, pass, sgd);
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
                      .times = model_.trunk.take_times()};
    add_times(report.times, outcome_.times);
    for (const auto& observer : observers_) observer->on_step(report);
  }

  void end_epoch() {
    const double seen = static_cast<double>(position().batch) * images_.shape().n;
    const Progress finished = outcome_.progress;
    outcome_.progress = {.position = {finished.position.epoch + 1, 0}};
    save();
    const Evaluation test = evaluate(model_, training_.test);
    model_.trunk.take_times();  // the split of the members' time is that of training
    outcome_.test_accuracy = test.accuracy;
    const EpochReport report{.epoch = position().epoch,
                             .step = steps_done(),
                             .train_loss = finished.epoch_loss / seen,
                             .train_accuracy = static_cast<double>(finished.epoch_correct) / seen,
                             .test_loss = test.loss,
                             .test_accuracy = test.accuracy,
                             .images_per_second = images_.shape().n * epoch_steps_ / epoch_seconds_,
                             .seconds = since_start_.seconds(),
                             .learning_rate = learning_rate(training_.net.training, finished.position.epoch)};
    for (const auto& observer : observers_) observer->on_epoch(report);
    epoch_seconds_ = 0.0;
    epoch_steps_ = 0;
  }

  const Training& training_;
  Model model_;
  const Observers& observers_;
  const std::function<void(const Progress&)>& save_;
  Tensor images_;
  std::vector<int> labels_;
  Outcome outcome_;
  Stopwatch since_start_;
  Stopwatch since_save_;
  double epoch_seconds_ = 0.0;
  int epoch_steps_ = 0;
  long saved_step_ = -1;
};

}  // namespace

Outcome train(const Training& training, Model model, const Progress& from, const Observers& observers,
              const std::function<void(const Progress&)>& save) {
  return Loop(training, model, from, observers, save).run();
}

}  // namespace convoy
