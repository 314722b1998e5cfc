#include "master/local_trunk.hpp"

#include "core/stopwatch.hpp"

namespace convoy {

LocalTrunk::LocalTrunk(const std::vector<Stage>& stages, const Shape& input, Device& device) {
  Shape maps = input;
  for (const Stage& stage : stages) {
    shards_.push_back(device.compile(
        {.stage = stage, .filters = {0, stage.conv.filters}, .batch = input.n, .input_gradient = !shards_.empty()}));
    maps = output_shape(stage, input.n, stage.conv.filters);
  }
  maps_ = Tensor(maps);
  if (shards_.empty()) return;
  input_ = shards_.front()->make_input();
  gradient_ = shards_.back()->make_output_gradient();
}

const Tensor& LocalTrunk::forward(const Tensor& images, const Pass& pass) {
  if (shards_.empty()) return maps_ = images;
  const Stopwatch watch;
  input_->write(images.span());
  const DeviceTensor* maps = input_.get();
  for (const auto& shard : shards_) maps = &shard->forward(*maps, pass);
  maps->read(maps_.span());
  compute_ += watch.seconds();
  return maps_;
}

void LocalTrunk::backward(const Tensor& gradient) {
  if (shards_.empty()) return;
  const Stopwatch watch;
  gradient_->write(gradient.span());
  const DeviceTensor* passed = gradient_.get();
  for (auto shard = shards_.rbegin(); shard != shards_.rend(); ++shard) passed = (*shard)->backward(*passed);
  compute_ += watch.seconds();
}

double LocalTrunk::gradient_squares() {
  double sum = 0.0;
  for (const auto& shard : shards_) sum += convoy::gradient_squares(*shard);
  return sum;
}

void LocalTrunk::update(const UpdateStep& step) {
  const Stopwatch watch;
  for (const auto& shard : shards_) shard->update(step);
  compute_ += watch.seconds();
}

std::vector<ShardState> LocalTrunk::snapshot() {
  std::vector<ShardState> states;
  for (const auto& shard : shards_) states.push_back(shard->state());
  return states;
}

void LocalTrunk::load(const std::vector<ShardState>& states) {
  invariant(states.size() == shards_.size(), "one state for each stage");
  for (std::size_t s = 0; s < states.size(); ++s) shards_[s]->set_state(states[s]);
}

std::vector<MemberTime> LocalTrunk::take_times() {
  return {{.member = "master", .compute = std::exchange(compute_, 0.0), .transfer = 0.0, .wait = 0.0}};
}

}  // namespace convoy
