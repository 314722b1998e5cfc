#include "model/heads.hpp"

#include "core/thread_team.hpp"
#include "kernels/host/matmul.hpp"

namespace convoy {

Heads::Heads(const Cut& cut, int batch, int threads, std::optional<HeadPace> pace)
    : threads_(threads > 0 ? threads : hardware_threads()), pace_(std::move(pace)) {
  const std::vector<int> outputs = outputs_of(cut.trunk);
  const std::vector<bool> needed = needed_gradients(cut.trunk);
  for (const CutHead& head : cut.heads) {
    const bool input_gradient = !cut.trunk.empty() && needed[static_cast<std::size_t>(outputs[heads_.size()])];
    heads_.emplace_back(head, cut.moments, batch, input_gradient);
    if (pace_) heads_.back().stop_computing();
  }
}

/// With a pace, takes the time of a forward or a backward pass.
void Heads::take_half(SampleRange samples) const {
  if (pace_) pace_->spend((pace_->fixed + pace_->per_image * samples.count) / 2.0);
}

void Heads::forward(const std::vector<const Tensor*>& maps, const Pass& pass, SampleRange samples) {
  invariant(maps.size() == heads_.size(), "one output of the trunk for each head");
  set_matmul_threads(threads_);
  take_half(samples);
  all_ = pass.training;
  for (std::size_t i = all_ ? 0 : heads_.size() - 1; i < heads_.size(); ++i) {
    outputs_ = &heads_[i].forward(*maps[i], pass, samples);
  }
}

BatchLoss Heads::loss(const Labels& labels, int count, SampleRange samples) {
  BatchLoss loss;
  for (std::size_t i = all_ ? 0 : heads_.size() - 1; i < heads_.size(); ++i) {
    loss = heads_[i].loss(labels, count, samples);
  }
  return loss;
}

std::vector<const Tensor*> Heads::backward(SampleRange samples) {
  set_matmul_threads(threads_);
  take_half(samples);
  std::vector<const Tensor*> gradients;
  for (Head<float>& head : heads_) gradients.push_back(&head.backward(samples));
  return gradients;
}

void Heads::backward_weights() {
  set_matmul_threads(threads_);
  if (pace_) pace_->spend(pace_->update);
  for (Head<float>& head : heads_) head.backward_weights();
}

void Heads::update(const UpdateStep& step) {
  set_matmul_threads(threads_);
  for (Head<float>& head : heads_) head.update(step);
}

std::string Heads::broken() const {
  for (const Head<float>& head : heads_) {
    if (!head.broken().empty()) return head.broken();
  }
  return "";
}

double Heads::gradient_squares() const {
  double sum = 0.0;
  for (const Head<float>& head : heads_) sum += head.gradient_squares();
  return sum;
}

std::vector<DenseState<float>> Heads::gradients() const {
  std::vector<DenseState<float>> gradients;
  for (const Head<float>& head : heads_) {
    for (std::size_t i = 0; i < head.states().size(); ++i) {
      const DenseState<float>& state = head.states()[i];
      if (head.frozen(i)) {
        gradients.push_back({state.name, {state.weights.value, {}}, {state.bias.value, {}}});
      } else {
        gradients.push_back({state.name, {head.weight_gradient(i), {}}, {head.bias_gradient(i), {}}});
      }
    }
  }
  return gradients;
}

std::vector<DenseState<float>> Heads::states() const {
  std::vector<DenseState<float>> states;
  for (const Head<float>& head : heads_) states.insert(states.end(), head.states().begin(), head.states().end());
  return states;
}

void Heads::load(const std::vector<DenseState<float>>& states) {
  auto from = states.begin();
  for (Head<float>& head : heads_) {
    for (DenseState<float>& state : head.states()) state = *from++;
    head.forget_broken();
  }
  invariant(from == states.end(), "one state for each dense layer");
}

}  // namespace convoy
