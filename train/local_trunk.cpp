#include "train/local_trunk.hpp"

#include <algorithm>
#include <numeric>

namespace convoy {

LocalTrunk::LocalTrunk(const std::vector<Stage>& stages, const Shape& input, Device& device) : shape_(input) {
  validate(stages);
  if (stages.empty()) return;
  outputs_ = outputs_of(stages).size();
  node_.emplace(whole_plan(stages, input.n, kMasterName), stages, 0, &device, Carrier{});
}

void LocalTrunk::begin(const Images& images, const Pass& pass) {
  invariant(images.shape() == shape_, "a batch has the shape for which the trunk was made");
  given_ = false;
  if (pass.training) step_ = pass.step;
  if (node_) {
    node_->begin({.pass = pass, .scales = images.scales}, &images.pixels);
    return run();
  }
  if (images_.shape() != shape_) images_ = Tensor(shape_);
  normaliser_.use(images.scales);
  normaliser_.normalise(images.pixels, {0, shape_.n}, images_);
}

/// Does the tasks that wait for nobody.
void LocalTrunk::run() {
  while (node_->work()) continue;
}

/// Returns all samples at once.
std::optional<SampleRange> LocalTrunk::next_outputs() {
  if (std::exchange(given_, true)) return std::nullopt;
  return SampleRange{0, shape_.n};
}

void LocalTrunk::backward(const std::vector<const Tensor*>& gradients, SampleRange samples) {
  invariant(samples == SampleRange{0, shape_.n}, "a local trunk runs backward for the whole batch");
  if (!node_) return;
  node_->give_gradients(gradients, 0);
  run();
}

void LocalTrunk::update(const UpdateStep& step) {
  if (!node_) return;
  node_->begin({.update = step}, nullptr);
  run();
  updated_ = step_;
}

std::optional<Broken> LocalTrunk::broken() const {
  if (!node_) return std::nullopt;
  const std::vector<std::uint32_t> broken = node_->broken_stages();
  if (broken.empty()) return std::nullopt;
  return Broken{.layer = node_->trunk()[broken.front()].name, .step = updated_};
}

std::vector<ShardState> LocalTrunk::snapshot() {
  std::vector<ShardState> states;
  for (std::size_t s = 0; s < stages(); ++s) states.push_back(node_->state(s, all_filters(s)));
  return states;
}

void LocalTrunk::begin_snapshot(bool moments) {
  begun_ = snapshot();
  if (!moments) std::ranges::for_each(*begun_, drop_moments);
}

void LocalTrunk::begin_changes(const std::vector<ShardState>& from, bool moments) {
  begin_snapshot(moments);
  for (std::size_t s = 0; s < stages(); ++s) subtract_trained(node_->trunk()[s], from[s], (*begun_)[s]);
}

void LocalTrunk::begin_gradients() {
  begun_.emplace();
  for (std::size_t s = 0; s < stages(); ++s) begun_->push_back(node_->gradients(s, all_filters(s)));
}

void LocalTrunk::begin_load(const std::vector<ShardState>& states) {
  invariant(states.size() == stages(), "there is one state for each stage");
  for (std::size_t s = 0; s < stages(); ++s) node_->set_state(s, all_filters(s), states[s]);
}

std::vector<MemberTime> LocalTrunk::take_times() {
  double compute = 0.0;
  if (node_) {
    const std::vector<double> seconds = node_->take_seconds();
    compute = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  }
  return {{.member = kMasterName, .compute = compute, .transfer = 0.0, .wait = 0.0}};
}

}  // namespace convoy
