#include "master/cluster/tile_run.hpp"

#include <algorithm>

namespace convoy {
namespace {

Tensor read_out(const DeviceTensor& from) {
  Tensor values(from.shape());
  from.read(values.span());
  return values;
}

}  // namespace

std::vector<Tensor> maps_read(const VerifiableTile& tile, const Plan& plan, const Node& master) {
  const std::vector<Stage>& trunk = master.trunk();
  const Stage& stage = trunk[tile.stage];
  std::vector<Tensor> inputs;
  inputs.emplace_back(input_shape(stage, plan.batch), 0.0F);
  for (const Shape& shape : added_shapes(stage, plan.batch, tile.filters.count)) inputs.emplace_back(shape, 0.0F);
  const NumberType type = wire_type({.kind = TaskKind::send, .cargo = Cargo::maps, .after = {}}, plan);
  for (const Read& read : reads_for(trunk, tile.stage, tile.filters)) {
    if (read.stage == Source::kZeros) continue;
    invariant(master.maps().box(read.stage) != nullptr, "the master has the maps that a verifiable tile reads");
    Tensor& input = inputs[read.number];
    const auto map = static_cast<std::size_t>(input.shape().h) * static_cast<std::size_t>(input.shape().w);
    const std::size_t at = static_cast<std::size_t>(read.at - (read.number > 0 ? tile.filters.first : 0)) * map;
    for (int n = 0; n < plan.batch; ++n) {
      const std::span<float> to = input.sample(n).subspan(at, map * static_cast<std::size_t>(read.channels.count));
      master.maps().copy(read.stage, n, read.channels, to.data());
      if (read.stage != Source::kImages) round_to(type, to);
    }
  }
  return inputs;
}

TileRun::TileRun(const VerifiableTile& tile, const std::vector<Stage>& trunk, int batch, Device& device)
    : trunk_(trunk),
      reads_(reads_for(trunk, tile.stage, tile.filters)),
      shard_(device.compile({.stage = trunk[tile.stage],
                             .filters = tile.filters,
                             .batch = batch,
                             .input_gradient = !tile.parts.empty()})),
      input_(shard_->make_input()) {
  const std::size_t adds = added_shapes(trunk[tile.stage], batch, tile.filters.count).size();
  for (std::size_t i = 0; i < adds; ++i) {
    added_.push_back(shard_->make_added(i));
    shard_->connect(i, *added_.back());
  }
}

TileResults TileRun::run(const TileInputs& inputs, const Pass& pass, const UpdateStep& step) {
  shard_->set_state(inputs.state);
  input_->write(inputs.maps[0].span());
  for (std::size_t i = 0; i < added_.size(); ++i) added_[i]->write(inputs.maps[i + 1].span());
  TileResults results{.maps = read_out(shard_->forward(*input_, pass)), .parts = {}, .gradients = {}, .state = {}};
  if (inputs.gradient.size() > 0) {
    const auto gradient = shard_->make_output_gradient();
    gradient->write(inputs.gradient.span());
    if (const DeviceTensor* part = shard_->backward_input(*gradient)) add_part(0, *part, results.parts);
    for (std::size_t i = 0; i < added_.size(); ++i) add_part(i + 1, shard_->added_gradient(i), results.parts);
    shard_->backward_filters();
    results.gradients = shard_->gradients();
    shard_->update(step);
  }
  results.state = shard_->state();
  return results;
}

/// Adds the gradient with respect to one input to the parts for the stages that the input is read from.
void TileRun::add_part(std::size_t number, const DeviceTensor& gradient, std::map<int, Tensor>& parts) const {
  const Tensor values = read_out(gradient);
  const ShardSpec& spec = shard_->spec();
  for (const Read& read : reads_) {
    if (read.number != number || read.stage < 0) continue;
    const int channels = trunk_[read.stage].conv.filters;
    Tensor& part =
        parts.try_emplace(read.stage, maps_shape(trunk_, read.stage, spec.batch, channels), 0.0F).first->second;
    const std::size_t map = part.shape().sample_size() / static_cast<std::size_t>(channels);
    const int at = read.at - (number > 0 ? spec.filters.first : 0);
    for (int n = 0; n < spec.batch; ++n) {
      const float* from = values.sample(n).data() + static_cast<std::size_t>(at) * map;
      float* to = part.sample(n).data() + static_cast<std::size_t>(read.channels.first) * map;
      for (std::size_t i = 0; i < static_cast<std::size_t>(read.channels.count) * map; ++i) to[i] += from[i];
    }
  }
}

}  // namespace convoy
