#include "train/replica.hpp"

#include <algorithm>
#include <utility>

#include "train/model_arithmetic.hpp"

namespace convoy {

Replica::Replica(Trunk& trunk, const Cut& cut, int batch, const HeadPlace& place)
    : trunk_(&trunk), heads_(cut, batch, place), averages_(std::ranges::any_of(cut.trunk, has_batch_norm)) {}

void Replica::use(Trunk& trunk) {
  trunk_ = &trunk;
  trunk_->carry_states_in(type_);
  loaded_.reset();
  trained_ = Trained::no;
  has_moments_ = false;
}

void Replica::begin(Task task) {
  invariant(idle(), "a replica does one task at a time");
  task_ = std::move(task);
  wants_model_ = false;
  phase_ = Phase::given;
}

void Replica::begin_model(const std::shared_ptr<const ModelState>& from, bool moments) {
  invariant(idle(), "a replica does one task at a time");
  wants_model_ = true;
  wants_moments_ = moments;
  has_moments_ = false;
  result_ = {};
  phase_ = trained_ == Trained::updated && loaded_ == from ? Phase::ending : Phase::done;
}

bool Replica::advance() {
  try {
    return step();
  } catch (const PeerLost& lost) {
    leave_turns();
    recover(lost);
    phase_ = wants_model_ ? Phase::done : Phase::given;
    return true;
  }
}

bool Replica::step() {
  switch (phase_) {
    case Phase::given:
      // Members change only where a replica that trains by itself has nothing to lose.
      if (!task_.local || trained_ != Trained::updated || loaded_ != task_.weights()) prepare();
      phase_ = Phase::waiting;
      return true;
    case Phase::waiting:
      if (semaphore_ != nullptr && !has(task_.weights()) && !semaphore_->weights.take(*this)) return trunk_->poll();
      load(task_.weights());
      result_ = {};
      phase_ = Phase::loading;
      return true;
    case Phase::loading:
      if (!trunk_->settled()) return trunk_->poll();
      leave_turns();
      trunk_->begin(task_.images, task_.pass);
      if (task_.pass.training && averages_ && !task_.local) loaded_.reset();
      phase_ = Phase::computing;
      return true;
    case Phase::computing: return compute();
    case Phase::ending:
      // In its turn a replica has the whole link, so that it begins when all of its values are there.
      if (!trunk_->settled()) return trunk_->poll();
      if (semaphore_ != nullptr && !semaphore_->gradients.take(*this)) return trunk_->poll();
      if (!wants_model_) {
        trunk_->begin_gradients();
      } else if (type_ == NumberType::fp32) {
        trunk_->begin_snapshot(wants_moments_);
      } else {
        trunk_->begin_changes(loaded_->trunk, wants_moments_);
      }
      phase_ = Phase::collecting;
      return true;
    case Phase::collecting:
      if (!trunk_->settled()) return trunk_->poll();
      if (auto trunk = trunk_->take_snapshot()) {
        leave_turns();
        collect(*std::move(trunk));
        return true;
      }
      return trunk_->poll();
    case Phase::idle:
    case Phase::done: break;
  }
  return false;
}

void Replica::collect(std::vector<ShardState> trunk) {
  if (wants_model_) {
    ModelState heads{.trunk = {}, .head = heads_.states()};
    if (!wants_moments_) heads = values_of(heads);
    result_.model = ModelState{std::move(trunk), std::move(heads.head)};
    has_moments_ = !wants_moments_;
  } else {
    result_.gradients = {std::move(trunk), heads_.gradients()};
    count_step();
  }
  phase_ = Phase::done;
}

void Replica::leave_turns() {
  if (semaphore_ == nullptr) return;
  semaphore_->weights.end(*this);
  semaphore_->gradients.end(*this);
}

/// Whether the task can be done without loading these weights.
bool Replica::has(const std::shared_ptr<const ModelState>& weights) const {
  return loaded_ == weights && (task_.local || trained_ == Trained::no);
}

void Replica::load(std::shared_ptr<const ModelState> weights) {
  if (has(weights)) return;
  loaded_.reset();  // if the trunk loses a member while it loads, its weights are not known
  trained_ = Trained::no;
  if (task_.own_moments && has_moments_) {
    ModelState values = values_of(*weights);
    trunk_->begin_load(values.trunk);
    take_moments({.trunk = {}, .head = heads_.states()}, values);
    heads_.load(values.head);
  } else {
    trunk_->begin_load(weights->trunk);
    heads_.load(weights->head);
  }
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
    end_computing();
  }
  return true;
}

/// All gradients of the trunk's outputs are known. Those of the weights are asked for before the heads' own are
/// computed.
void Replica::end_computing() {
  const bool early = !task_.local && semaphore_ == nullptr;
  if (early) trunk_->begin_gradients();
  heads_.backward_weights();
  if (task_.local) {
    trained_ = Trained::gradients;
    count_step();
    phase_ = Phase::done;
  } else {
    phase_ = early ? Phase::collecting : Phase::ending;
  }
}

Replica::Result Replica::take() {
  invariant(done(), "the task is done");
  phase_ = Phase::idle;
  return std::exchange(result_, {});
}

void Replica::update(const UpdateStep& step) {
  if (trained_ != Trained::gradients) return;
  trunk_->update(step);
  heads_.update(step);
  trained_ = Trained::updated;
  updated_ = task_.pass.step;
}

void Replica::settle() {
  try {
    trunk_->settle();
  } catch (const PeerLost& lost) {
    recover(lost);
  }
}

std::optional<Broken> Replica::broken() const {
  if (auto stage = trunk_->broken()) return stage;
  const std::string layer = heads_.broken();
  return layer.empty() ? std::nullopt : std::optional(Broken{.layer = layer, .step = updated_});
}

}  // namespace convoy
