#include <algorithm>
#include <utility>

#include "core/stopwatch.hpp"
#include "exchange/node_parts.hpp"

namespace convoy {

Node::Node(const Plan& plan, const std::vector<Stage>& trunk, int index, Device* device, Carrier carrier,
           std::size_t most_values)
    : plan_(plan),
      trunk_(trunk),
      index_(index),
      carrier_(std::move(carrier)),
      most_values_(most_values),
      training_(make_task_graph(plan, trunk, true)),
      testing_(make_task_graph(plan, trunk, false)),
      training_followers_(followers_of(training_)),
      testing_followers_(followers_of(testing_)),
      pieces_(trunk.size()),
      seconds_(trunk.size(), 0.0),
      credit_(initial_credit(plan)) {
  compile(device);
  make_slabs();
  if (plan_.exchange == Exchange::thesis) make_raw_slabs();
}

Node::~Node() = default;

void Node::compile(Device* device) {
  for (std::size_t s = 0; s < trunk_.size(); ++s) {
    const FilterRange own = own_filters(plan_, s, index_);
    const FilterRange held = held_filters(plan_, training_, s, index_);
    std::vector<FilterRange> ranges;
    if (own.count > 0) ranges.push_back(own);
    if (held.count > own.count && !sends_weights()) {
      const int behind = own.first + own.count;
      if (own.first > 0) ranges.push_back({0, own.first});
      if (behind < held.count) ranges.push_back({behind, held.count - behind});
    }
    Stage stage = trunk_[s];
    if (plan_.exchange == Exchange::thesis) stage.after.clear();
    for (const FilterRange& range : ranges) {
      invariant(device != nullptr, "a device for a node with shards");
      Piece piece{.filters = range,
                  .shard = device->compile({.stage = stage,
                                            .filters = range,
                                            .batch = plan_.batch,
                                            .input_gradient = s > 0 && range == own,
                                            .micro_batches = plan_.micro_batches}),
                  .input = nullptr,
                  .gradient = nullptr,
                  .fresh = std::nullopt};
      if (pieces_[s].empty()) piece.input = piece.shard->make_input();
      if (range == own) piece.gradient = piece.shard->make_output_gradient();
      pieces_[s].push_back(std::move(piece));
    }
    if (s > 0 && own.count > 0) parts_[static_cast<int>(s)] = {Tensor(input_shape(trunk_[s], plan_.batch)), 0};
  }
}

/// A node has all channels of what it reads, and its own of what it only makes.
void Node::make_slabs() {
  const auto stages = static_cast<int>(trunk_.size());
  for (int s = 0; s <= stages; ++s) {
    const FilterRange made = s > 0 ? own_filters(plan_, static_cast<std::size_t>(s - 1), index_) : FilterRange{};
    Shape shape = s < stages ? input_shape(trunk_[static_cast<std::size_t>(s)], plan_.batch)
                             : output_shape(trunk_.back(), plan_.batch, trunk_.back().conv.filters);
    bool reads = index_ == training_.master && (s == 0 || s == stages || plan_.exchange != Exchange::ring);
    bool sums = index_ == training_.master && (s == stages || plan_.exchange != Exchange::ring);
    for (const Task& each : training_.tasks) {
      reads = reads || (each.kind == TaskKind::forward && each.node == index_ && each.stage == s);
    }
    sums = sums && s > 0;
    if (reads || made.count > 0) {
      Shape of_maps = shape;
      if (!reads) of_maps.c = made.count;
      maps_[s] = {Tensor(of_maps), reads ? 0 : made.first};
    }
    if (sums || made.count > 0) {
      if (!sums) shape.c = made.count;
      gradients_[s] = {Tensor(shape), sums ? 0 : made.first};
    }
  }
}

/// Of the thesis' scheme: what convolutions make is on the master whole.
void Node::make_raw_slabs() {
  for (std::size_t s = 0; s < trunk_.size(); ++s) {
    const FilterRange held = held_filters(plan_, training_, s, index_);
    if (held.count == 0) continue;
    const Shape shape = conv_shape(trunk_[s], plan_.batch, held.count);
    raw_[static_cast<int>(s)] = {Tensor(shape), held.first};
    raw_gradients_[static_cast<int>(s)] = {Tensor(shape), held.first};
    if (!sends_weights()) continue;
    layers_.push_back(std::make_unique<ChannelLayers<float>>(trunk_[s], held, plan_.batch, nullptr));
    weights_.push_back(zero_state(trunk_[s], held.count));
  }
}

int initial_credit(const Plan& plan) {
  constexpr int kOfAll = 64;
  return std::max(4, kOfAll / std::max(1, static_cast<int>(plan.members.size())));
}

SampleRange Node::samples_of(const Task& task) const {
  const int count = plan_.batch / plan_.micro_batches;
  return {task.micro_batch * count, count};
}

std::size_t Node::values_of(const Task& sent) const { return convoy::values_of(sent, plan_, trunk_); }

std::size_t Node::slab_values(const Task& sum) const {
  Shape shape = input_shape(trunk_[static_cast<std::size_t>(sum.stage)], samples_of(sum).count);
  shape.c = sum.filters.count;
  return shape.size();
}

// ---- the course of a step ------------------------------------------------------------------------------------------

void Node::begin(const Pass& pass, const Tensor* images) {
  invariant(finished(), "one step after another");
  pass_ = pass;
  update_.reset();
  output_ready_ = false;
  graph_ = pass.training ? &training_ : &testing_;
  followers_ = pass.training ? &training_followers_ : &testing_followers_;
  if (images != nullptr) std::ranges::copy(images->span(), maps_.at(0).values.data());
  missing_.clear();
  done_.assign(graph_->tasks.size(), false);
  added_.clear();
  shared_.clear();
  for (std::size_t i = 0; i < graph_->tasks.size(); ++i) {
    const Task& each = graph_->tasks[i];
    missing_.push_back(each.after.size());
    if (each.node == index_ || each.to == index_) ++left_;
    if (each.node == index_ && needs_credit(each, *graph_, plan_)) parts_to_send_.push_back(static_cast<int>(i));
  }
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    if (missing_[i] == 0 && graph_->tasks[i].node == index_) make_ready(static_cast<int>(i));
  }
}

void Node::make_ready(int index) {
  switch (task(index).kind) {
    case TaskKind::send:
      if (!needs_credit(task(index), *graph_, plan_)) return send(index);
      done_[static_cast<std::size_t>(index)] = true;  // what it sends is there
      return send_parts();
    case TaskKind::head:
      output_ready_ = true;
      if (!pass_.training) finish(index);
      return;
    case TaskKind::sum: return finish(index);  // add_up() did it as the parts came
    case TaskKind::update:
      if (!update_) {
        waiting_updates_.push_back(index);
        return;
      }
      break;
    default: break;
  }
  ready_.insert(index);
}

void Node::finish(int index) {
  --left_;
  done_[static_cast<std::size_t>(index)] = true;
  if (task(index).kind == TaskKind::backward_input) {
    for (const int follower : (*followers_)[static_cast<std::size_t>(index)]) {
      if (task(follower).node != index_ || task(follower).kind != TaskKind::sum) continue;
      for (const int added : add_up(follower)) finish(added);
    }
  }
  release(index);
}

void Node::release(int index) {
  for (const int follower : (*followers_)[static_cast<std::size_t>(index)]) {
    if (task(follower).node != index_) continue;
    if (--missing_[static_cast<std::size_t>(follower)] == 0) make_ready(follower);
  }
}

const Tensor& Node::output() const { return maps_.at(static_cast<int>(trunk_.size())).values; }

void Node::give_gradient(const Tensor& gradient) {
  std::ranges::copy(gradient.span(), gradients_.at(static_cast<int>(trunk_.size())).values.data());
  for (std::size_t i = 0; i < graph_->tasks.size(); ++i) {
    if (graph_->tasks[i].kind == TaskKind::head) return finish(static_cast<int>(i));
  }
}

void Node::allow_update(const UpdateStep& step) {
  update_ = step;
  for (const int index : std::exchange(waiting_updates_, {})) ready_.insert(index);
}

bool Node::work() {
  if (ready_.empty()) return false;
  const int index = *ready_.begin();
  ready_.erase(ready_.begin());
  const Task& next = task(index);
  const Stopwatch watch;
  switch (next.kind) {
    case TaskKind::forward: forward(next); break;
    case TaskKind::backward_input: backward_input(next); break;
    case TaskKind::layers: layers(next); break;
    case TaskKind::layers_backward: layers_backward(next); break;
    case TaskKind::backward_filters: pieces_[static_cast<std::size_t>(next.stage)].front().shard->backward_filters(); break;
    case TaskKind::update: update(); break;
    default: invariant(false, "heads, sums and sends are not worked at");
  }
  if (next.kind != TaskKind::update) seconds_[static_cast<std::size_t>(next.stage)] += watch.seconds();
  finish(index);
  return true;
}

void Node::forward(const Task& task) {
  std::vector<Piece>& pieces = pieces_[static_cast<std::size_t>(task.stage)];
  SampleRange samples = samples_of(task);
  pieces.front().input->write(samples, maps_.at(task.stage).values.samples(samples.first, samples.count));
  Slab& output = made(task.stage);
  for (Piece& piece : pieces) {
    if (piece.fresh) piece.shard->set_state(*std::exchange(piece.fresh, std::nullopt));
    const DeviceTensor& made = piece.shard->forward(*pieces.front().input, pass_, samples_of(task));
    if (piece.shard->spec().waits_for_batch()) {
      if (task.micro_batch + 1 < plan_.micro_batches) continue;
      samples = {0, plan_.batch};
    }
    scratch_.resize(static_cast<std::size_t>(samples.count) * made.shape().sample_size());
    made.read(samples, scratch_);
    const float* from = scratch_.data();
    for (int n = samples.first; n < samples.first + samples.count; ++n) {
      const std::span<float> run = output.run(n, piece.filters);
      std::copy_n(from, run.size(), run.data());
      from += run.size();
    }
  }
}

double Node::gradient_squares() const {
  double sum = 0.0;
  for (const std::vector<Piece>& pieces : pieces_) {
    if (!pieces.empty() && pieces.front().gradient != nullptr) sum += convoy::gradient_squares(*pieces.front().shard);
  }
  return sum;
}

void Node::update() {
  for (std::size_t s = 0; s < trunk_.size(); ++s) {
    if (own(s).count == 0) continue;
    const Stopwatch watch;
    pieces_[s].front().shard->update(*update_);
    seconds_[s] += watch.seconds();
  }
}

/// What a shard of a stage makes, and the gradient by that.
Node::Slab& Node::made(int stage) {
  return plan_.exchange == Exchange::thesis ? raw_.at(stage) : maps_.at(stage + 1);
}

Node::Slab& Node::gradient_by_made(int stage) {
  return plan_.exchange == Exchange::thesis ? raw_gradients_.at(stage) : gradients_.at(stage + 1);
}

void Node::layers(const Task& task) {
  ChannelLayers<float>& layers = *layers_[static_cast<std::size_t>(task.stage)];
  std::ranges::copy(raw_.at(task.stage).values.span(), layers.input().data());
  layers.forward({0, plan_.batch}, pass_, serially);
  std::ranges::copy(layers.output().span(), maps_.at(task.stage + 1).values.data());
}

void Node::layers_backward(const Task& task) {
  ChannelLayers<float>& layers = *layers_[static_cast<std::size_t>(task.stage)];
  std::ranges::copy(gradients_.at(task.stage + 1).values.span(), layers.output_gradient().data());
  layers.backward({0, plan_.batch}, serially);
  std::ranges::copy(layers.input_gradient().span(), raw_gradients_.at(task.stage).values.data());
}

void Node::backward_input(const Task& task) {
  Piece& piece = pieces_[static_cast<std::size_t>(task.stage)].front();
  const SampleRange samples = samples_of(task);
  SampleRange there = samples;
  if (piece.shard->spec().waits_for_batch()) there = {0, task.micro_batch == 0 ? plan_.batch : 0};
  scratch_.clear();
  for (int n = there.first; n < there.first + there.count; ++n) {
    const std::span<const float> run = gradient_by_made(task.stage).run(n, piece.filters);
    scratch_.insert(scratch_.end(), run.begin(), run.end());
  }
  if (there.count > 0) piece.gradient->write(there, scratch_);
  const DeviceTensor* part = piece.shard->backward_input(*piece.gradient, samples);
  if (part != nullptr) part->read(samples, parts_.at(task.stage).values.samples(samples.first, samples.count));
}

// ---- state ---------------------------------------------------------------------------------------------------------

std::size_t Node::bytes_due() const {
  double bytes = 0.0;
  for (const Task& each : training_.tasks) {
    if (each.to == index_) bytes += bytes_of(each, plan_, trunk_);
  }
  return static_cast<std::size_t>(bytes);
}

FilterRange Node::own(std::size_t stage) const {
  return stage < trunk_.size() ? own_filters(plan_, stage, index_) : FilterRange{};
}

FilterRange Node::held(std::size_t stage) const {
  return stage < trunk_.size() ? held_filters(plan_, training_, stage, index_) : FilterRange{};
}

ShardState Node::state(std::size_t stage, FilterRange filters) const {
  const Piece& own = pieces_[stage].front();
  return slice(own.shard->state(), {filters.first - own.filters.first, filters.count});
}

std::vector<FilterState> Node::own_states() const {
  std::vector<FilterState> states;
  for (std::size_t s = 0; s < trunk_.size(); ++s) {
    if (own(s).count > 0) states.push_back({s, own(s), state(s, own(s))});
  }
  return states;
}

void Node::set_state(std::size_t stage, FilterRange filters, const ShardState& state) {
  const auto part_of = [&](FilterRange some) { return slice(state, {some.first - filters.first, some.count}); };
  for (Piece& piece : pieces_[stage]) {
    const FilterRange here = common(piece.filters, filters);
    if (here.count == 0) continue;
    ShardState whole = piece.fresh ? *std::exchange(piece.fresh, std::nullopt) : piece.shard->state();
    paste(part_of(here), {here.first - piece.filters.first, here.count}, whole);
    piece.shard->set_state(whole);
  }
  if (sends_weights()) paste(state, filters, weights_[stage]);
}

}  // namespace convoy
