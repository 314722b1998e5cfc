#include "model/heads.hpp"

#include "core/thread_team.hpp"
#include "kernels/host/matmul.hpp"
#include "model/device_dense.hpp"

namespace convoy {

MakeDense<float> dense_at(const HeadPlace& place) {
  if (place.device == nullptr || place.pace) return make_host_dense<float>;
  return [place](const DenseSpec& spec) { return make_device_dense(spec, *place.device, place.notice); };
}

Heads::Heads(const Cut& cut, int batch, const HeadPlace& place)
    : threads_(place.threads > 0 ? place.threads : hardware_threads()), pace_(place.pace) {
  const std::vector<int> outputs = outputs_of(cut.trunk);
  const std::vector<bool> needed = needed_gradients(cut.trunk);
  for (const CutHead& head : cut.heads) {
    const bool input_gradient = !cut.trunk.empty() && needed[outputs[heads_.size()]];
    heads_.emplace_back(head, cut.moments, batch, input_gradient, dense_at(place));
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
    std::string layer = head.broken();
    if (!layer.empty()) return layer;
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
    for (std::size_t i = 0; i < head.dense_layers(); ++i) {
      const std::string& name = head.dense_spec(i).name;
      if (head.frozen(i)) {
        gradients.push_back({name, {head.state(i).weights.value, {}}, {head.state(i).bias.value, {}}});
      } else {
        gradients.push_back({name, {head.weight_gradient(i), {}}, {head.bias_gradient(i), {}}});
      }
    }
  }
  return gradients;
}

std::vector<DenseState<float>> Heads::states() const {
  std::vector<DenseState<float>> states;
  for (const Head<float>& head : heads_) {
    for (std::size_t i = 0; i < head.dense_layers(); ++i) states.push_back(head.state(i));
  }
  return states;
}

void Heads::load(const std::vector<DenseState<float>>& states) {
  auto from = states.begin();
  for (Head<float>& head : heads_) {
    for (std::size_t i = 0; i < head.dense_layers(); ++i) head.set_state(i, *from++);
  }
  invariant(from == states.end(), "one state for each dense layer");
}

}  // namespace convoy
