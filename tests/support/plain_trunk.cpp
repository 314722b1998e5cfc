#include "tests/support/plain_trunk.hpp"

#include <algorithm>

#include "plan/plan.hpp"

namespace convoy {

PlainTrunk::PlainTrunk(const std::vector<Stage>& stages, const Shape& input, Device& device) {
  validate(stages);
  find_reads(stages);
  gradients_.resize(stages.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    const bool slopes = std::ranges::any_of(reads_[s][0].from, [](const Source& source) { return source.stage >= 0; });
    shards_.push_back(device.compile(
        {.stage = stage, .filters = {0, stage.conv.filters}, .batch = input.n, .input_gradient = slopes}));
    if (!uses_[s].empty()) continue;
    heads_.push_back(s);
    maps_.emplace_back(output_shape(stage, input.n, stage.conv.filters));
    gradients_[s] = shards_[s]->make_output_gradient();
  }
  if (shards_.empty()) {
    maps_.emplace_back(input);
    return;
  }
  input_ = device.make_tensor(input);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Read& first = reads_[s][0];
    if (first.joined < 0 && first.from[0].stage == Source::kImages) input_ = shards_[s]->make_input();
  }
  for (Joined& joined : joined_) {
    const std::vector<Read>& reads = reads_[joined.reader];
    const auto at = std::ranges::find(reads, joined.from, &Read::from) - reads.begin();
    joined.maps = at == 0 ? shards_[joined.reader]->make_input()
                          : shards_[joined.reader]->make_added(static_cast<std::size_t>(at) - 1);
    joined.maps->write(Tensor(joined.maps->shape(), 0.0F).span());
  }
  outputs_.resize(shards_.size());
  input_gradients_.resize(shards_.size());
}

void PlainTrunk::find_reads(const std::vector<Stage>& stages) {
  reads_.resize(stages.size());
  uses_.resize(stages.size());
  for (std::size_t s = stages.size(); s-- > 0;) {
    for (const Sources& from : reads_of(stages, s)) {
      int at = 0;
      for (const Source& source : from) {
        if (source.stage >= 0) {
          uses_[source.stage].push_back({s, reads_[s].size(), source.channels, at});
        }
        at += source.channels.count;
      }
      reads_[s].push_back({from});
    }
  }
  tested_.assign(stages.size(), false);
  if (!stages.empty()) tested_.back() = true;
  for (std::size_t s = stages.size(); s-- > 0;) {
    for (const Use& use : uses_[s]) tested_[s] = tested_[s] || tested_[use.stage];
  }
  const auto all_of = [&](const Source& source) {
    if (source.stage < 0) return source.stage == Source::kImages;
    return source.channels.count == stages[source.stage].conv.filters;
  };
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (Read& read : reads_[s]) {
      if (read.from.size() == 1 && all_of(read.from[0])) continue;
      const auto known = std::ranges::find(joined_, read.from, &Joined::from);
      read.joined = static_cast<int>(known - joined_.begin());
      if (known == joined_.end()) joined_.push_back({.from = read.from, .maps = nullptr, .reader = s});
    }
  }
}

const DeviceTensor& PlainTrunk::maps_of(int stage) const {
  return stage == Source::kImages ? *input_ : *outputs_[stage];
}

const DeviceTensor& PlainTrunk::read(const Read& read) const {
  return read.joined < 0 ? maps_of(read.from[0].stage) : *joined_[read.joined].maps;
}

/// Assembles the tensor unless it was assembled in this pass already.
void PlainTrunk::join(Joined& joined) {
  if (std::exchange(joined.done, true)) return;
  int at = 0;
  for (const Source& source : joined.from) {
    if (source.stage != Source::kZeros) joined.maps->take_channels(maps_of(source.stage), source.channels, at, false);
    at += source.channels.count;
  }
}

void PlainTrunk::begin(const Images& images, const Pass& pass) {
  normaliser_.use(images.scales);
  if (images_.shape() != images.shape()) images_ = Tensor(images.shape());
  normaliser_.normalise(images.pixels, {0, images.shape().n}, images_);
  begin(images_, pass);
}

void PlainTrunk::begin(const Tensor& images, const Pass& pass) {
  given_ = false;
  if (pass.training) step_ = pass.step;
  if (shards_.empty()) {
    maps_[0] = images;
    return;
  }
  input_->write(images.span());
  for (Joined& joined : joined_) joined.done = false;
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    if (!pass.training && !tested_[s]) continue;
    for (const Read& each : reads_[s]) {
      if (each.joined >= 0) join(joined_[each.joined]);
    }
    for (std::size_t r = 1; r < reads_[s].size(); ++r) shards_[s]->connect(r - 1, read(reads_[s][r]));
    outputs_[s] = &shards_[s]->forward(read(reads_[s][0]), pass);
  }
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    if (pass.training || i + 1 == heads_.size()) outputs_[heads_[i]]->read(maps_[i].span());
  }
}

/// Returns all samples at once.
std::optional<SampleRange> PlainTrunk::next_outputs() {
  if (std::exchange(given_, true)) return std::nullopt;
  return SampleRange{0, maps_[0].shape().n};
}

const DeviceTensor& PlainTrunk::gradient_by(const Use& use) const {
  return use.read == 0 ? *input_gradients_[use.stage] : shards_[use.stage]->added_gradient(use.read - 1);
}

/// The gradient with respect to a stage's maps: the sum over all stages that read them, added up from the last one on.
const DeviceTensor& PlainTrunk::gradient_of(std::size_t stage) {
  const std::vector<Use>& uses = uses_[stage];
  const auto whole = [&](const Use& use) { return use.channels.count == shards_[stage]->spec().filters.count; };
  std::unique_ptr<DeviceTensor>& sum = gradients_[stage];
  if (uses.empty()) return *sum;  // the maps are an output, and its head has written the gradient
  if (uses.size() == 1 && reads_[uses[0].stage][uses[0].read].joined < 0) return gradient_by(uses[0]);
  if (sum == nullptr) sum = shards_[stage]->make_output_gradient();
  if (!whole(uses[0])) sum->write(Tensor(sum->shape(), 0.0F).span());
  for (const Use& use : uses) {
    const bool added = &use != &uses[0] || !whole(uses[0]);
    sum->take_channels(gradient_by(use), {use.first, use.channels.count}, use.channels.first, added);
  }
  return *sum;
}

void PlainTrunk::backward(const std::vector<const Tensor*>& gradients, SampleRange samples) {
  invariant(samples == SampleRange{0, maps_[0].shape().n}, "a plain trunk runs backward for the whole batch");
  if (shards_.empty()) return;
  for (std::size_t i = 0; i < heads_.size(); ++i) gradients_[heads_[i]]->write(gradients[i]->span());
  for (std::size_t s = shards_.size(); s-- > 0;) input_gradients_[s] = shards_[s]->backward(gradient_of(s));
}

double PlainTrunk::gradient_squares() {
  double sum = 0.0;
  for (const auto& shard : shards_) sum += convoy::gradient_squares(*shard);
  return sum;
}

void PlainTrunk::update(const UpdateStep& step) {
  for (const auto& shard : shards_) shard->update(step);
  updated_ = step_;
}

std::optional<Broken> PlainTrunk::broken() const {
  const auto found = std::ranges::find_if(shards_, [](const auto& shard) { return !shard->finite(); });
  if (found == shards_.end()) return std::nullopt;
  return Broken{.layer = (*found)->spec().stage.name, .step = updated_};
}

std::vector<ShardState> PlainTrunk::snapshot() {
  std::vector<ShardState> states;
  for (const auto& shard : shards_) states.push_back(shard->state());
  return states;
}

void PlainTrunk::begin_snapshot(bool moments) {
  begun_ = snapshot();
  if (!moments) std::ranges::for_each(*begun_, drop_moments);
}

void PlainTrunk::begin_changes(const std::vector<ShardState>& from, bool moments) {
  begin_snapshot(moments);
  for (std::size_t s = 0; s < begun_->size(); ++s) subtract_trained(shards_[s]->spec().stage, from[s], (*begun_)[s]);
}

void PlainTrunk::begin_gradients() {
  begun_.emplace();
  for (const auto& shard : shards_) begun_->push_back(gradient_state(*shard));
}

void PlainTrunk::begin_load(const std::vector<ShardState>& states) {
  invariant(states.size() == shards_.size(), "there is one state for each stage");
  for (std::size_t s = 0; s < states.size(); ++s) {
    ShardState state = shards_[s]->state();
    paste(states[s], {0, shards_[s]->spec().stage.conv.filters}, state);
    shards_[s]->set_state(state);
  }
}

}  // namespace convoy
