#include "train/replica.hpp"

#include <algorithm>
#include <utility>

namespace convoy {

Replica::Replica(Trunk& trunk, const Cut& cut, int batch, int threads, std::optional<HeadPace> pace)
    : trunk_(&trunk),
      heads_(cut, batch, threads, std::move(pace)),
      averages_(std::ranges::any_of(cut.trunk, has_batch_norm)) {}

void Replica::use(Trunk& trunk) {
  trunk_ = &trunk;
  loaded_.reset();
}

void Replica::begin(Task task) {
  invariant(idle(), "a replica does one task at a time");
  task_ = std::move(task);
  phase_ = Phase::given;
}

bool Replica::advance() {
  try {
    return step();
  } catch (const PeerLost& lost) {
    recover(lost);
    phase_ = Phase::given;
    return true;
  }
}

bool Replica::step() {
  switch (phase_) {
    case Phase::given:
      prepare();
      load(task_.weights());
      result_ = {};
      phase_ = Phase::loading;
      return true;
    case Phase::loading:
      if (!trunk_->settled()) return trunk_->poll();
      trunk_->begin(task_.images, task_.pass);
      if (task_.pass.training && averages_) loaded_.reset();
      phase_ = Phase::computing;
      return true;
    case Phase::computing: return compute();
    case Phase::ending:
      if (!trunk_->settled()) return trunk_->poll();
      trunk_->begin_gradients();
      phase_ = Phase::collecting;
      return true;
    case Phase::collecting:
      if (auto trunk = trunk_->take_snapshot()) {
        result_.gradients = {*std::move(trunk), heads_.gradients()};
        count_step();
        phase_ = Phase::done;
        return true;
      }
      return trunk_->poll();
    case Phase::idle:
    case Phase::done: break;
  }
  return false;
}

void Replica::load(std::shared_ptr<const ModelState> weights) {
  if (loaded_ == weights) return;
  loaded_.reset();  // if the trunk loses a member while it loads, its weights are not known
  trunk_->begin_load(weights->trunk);
  heads_.load(weights->head);
  loaded_ = std::move(weights);
}

/// Takes the samples that have come through the trunk.
bool Replica::compute() {
  if (!trunk_->outputs_ready()) return trunk_->poll();
  const std::optional<SampleRange> samples = trunk_->next_outputs();
  if (!task_.pass.training) {
    if (samples) return true;
    result_.maps = trunk_->output(trunk_->output_count() - 1);
    phase_ = Phase::done;
  } else if (samples) {
    heads_.forward(trunk_->outputs(), task_.pass, *samples);
    const BatchLoss part = heads_.loss(task_.labels, task_.images.shape().n, *samples);
    result_.loss.sum += part.sum;
    result_.loss.correct += part.correct;
    trunk_->backward(heads_.backward(*samples), *samples);
  } else {
    heads_.backward_weights();
    phase_ = Phase::ending;
  }
  return true;
}

Replica::Result Replica::take() {
  invariant(done(), "the task is done");
  phase_ = Phase::idle;
  return std::exchange(result_, {});
}

}  // namespace convoy
