#include "exchange/node.hpp"

#include <algorithm>

namespace convoy {

struct Node::Piece {
  FilterRange filters;
  std::unique_ptr<Shard> shard;
  std::unique_ptr<DeviceTensor> input;     ///< of the first piece, which the others read as well
  std::unique_ptr<DeviceTensor> gradient;  ///< of the node's own shard
  std::optional<ShardState> fresh;         ///< of others' filters: arrived, and not yet taken
};

/// Channels first .. first + values.shape().c - 1 of a tensor.
struct Node::Slab {
  Tensor values;
  int first = 0;

  /// Calls visit(values of a sample that lie together) for the box of samples and channels, sample by sample.
  template <class Visit>
  void for_each_run(SampleRange samples, FilterRange channels, Visit visit) {
    const Shape& shape = values.shape();
    const std::size_t map = static_cast<std::size_t>(shape.h) * static_cast<std::size_t>(shape.w);
    for (int n = samples.first; n < samples.first + samples.count; ++n) {
      visit(values.sample(n).subspan(static_cast<std::size_t>(channels.first - first) * map,
                                     static_cast<std::size_t>(channels.count) * map));
    }
  }
};

struct Node::Flight {
  std::size_t next = 0;  ///< value
  std::vector<std::byte> bytes;
};

namespace {

FilterRange own_filters(const StagePlan& plan, int node) {
  for (const Assignment& shard : plan.shards) {
    if (shard.member == node) return shard.filters;
  }
  return {};
}

}  // namespace

Node::Node(const Plan& plan, const std::vector<Stage>& trunk, int index, Device* device, Send send,
           std::size_t most_values)
    : plan_(plan),
      trunk_(trunk),
      index_(index),
      send_(std::move(send)),
      most_values_(most_values),
      training_(make_task_graph(plan, trunk, true)),
      testing_(make_task_graph(plan, trunk, false)),
      training_followers_(followers_of(training_)),
      testing_followers_(followers_of(testing_)),
      pieces_(trunk.size()) {
  compile(device);
  make_slabs();
}

Node::~Node() = default;

void Node::compile(Device* device) {
  for (std::size_t s = 0; s < trunk_.size(); ++s) {
    const FilterRange own = own_filters(plan_.stages[s], index_);
    const int all = trunk_[s].conv.filters;
    bool computes_all = false;
    for (const Task& each : training_.tasks) {
      const bool here = each.node == index_ && each.kind == TaskKind::forward && each.stage == static_cast<int>(s);
      computes_all = computes_all || (here && each.filters.count == all && own.count != all);
    }
    std::vector<FilterRange> ranges;
    if (own.count > 0) ranges.push_back(own);
    if (computes_all) {
      const int behind = own.first + own.count;
      if (own.first > 0) ranges.push_back({0, own.first});
      if (behind < all) ranges.push_back({behind, all - behind});
    }
    for (const FilterRange& range : ranges) {
      invariant(device != nullptr, "a device for a node with shards");
      Piece piece{.filters = range,
                  .shard = device->compile({.stage = trunk_[s],
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
    if (s > 0 && own.count > 0) parts_[static_cast<int>(s)] = Tensor(input_shape(trunk_[s], plan_.batch));
  }
}

/// A node has all channels of what it reads, and its own of what it only makes.
void Node::make_slabs() {
  const auto stages = static_cast<int>(trunk_.size());
  for (int s = 0; s <= stages; ++s) {
    const FilterRange made = s > 0 ? own_filters(plan_.stages[static_cast<std::size_t>(s - 1)], index_) : FilterRange{};
    Shape shape = s < stages ? input_shape(trunk_[static_cast<std::size_t>(s)], plan_.batch)
                             : output_shape(trunk_.back(), plan_.batch, trunk_.back().conv.filters);
    bool reads = index_ == training_.master && (s == 0 || s == stages || plan_.exchange == Exchange::star);
    bool sums = index_ == training_.master && (s == stages || plan_.exchange == Exchange::star);
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

SampleRange Node::samples_of(const Task& task) const {
  const int count = plan_.batch / plan_.micro_batches;
  return {task.micro_batch * count, count};
}

std::size_t Node::values_of(const Task& task) const {
  const std::size_t size = task.cargo == Cargo::weights ? sizeof(float) : bytes_of(plan_.wire);
  return static_cast<std::size_t>(bytes_of(task, plan_, trunk_)) / size;
}

// ---- the course of a step ------------------------------------------------------------------------------------------

void Node::begin(const Pass& pass, const Tensor* images) {
  invariant(finished(), "one step after another");
  pass_ = pass;
  sgd_.reset();
  output_ready_ = false;
  graph_ = pass.training ? &training_ : &testing_;
  followers_ = pass.training ? &training_followers_ : &testing_followers_;
  if (images != nullptr) std::ranges::copy(images->span(), maps_.at(0).values.data());
  missing_.clear();
  for (const Task& each : graph_->tasks) {
    missing_.push_back(each.after.size());
    if (each.node == index_ || each.to == index_) ++left_;
  }
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    if (missing_[i] == 0 && graph_->tasks[i].node == index_) make_ready(static_cast<int>(i));
  }
}

void Node::make_ready(int index) {
  switch (task(index).kind) {
    case TaskKind::send: return send(index);
    case TaskKind::head:
      output_ready_ = true;
      if (!pass_.training) finish(index);
      return;
    case TaskKind::update:
      if (!sgd_) {
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

void Node::allow_update(const SgdStep& step) {
  sgd_ = step;
  for (const int index : std::exchange(waiting_updates_, {})) ready_.insert(index);
}

bool Node::work() {
  if (ready_.empty()) return false;
  const int index = *ready_.begin();
  ready_.erase(ready_.begin());
  const Task& next = task(index);
  switch (next.kind) {
    case TaskKind::forward: forward(next); break;
    case TaskKind::backward_input: backward_input(next); break;
    case TaskKind::backward_filters: pieces_[static_cast<std::size_t>(next.stage)].front().shard->backward_filters(); break;
    case TaskKind::sum: add_up(next); break;
    case TaskKind::update:
      for (std::size_t s = 0; s < trunk_.size(); ++s) {
        if (own_filters(plan_.stages[s], index_).count > 0) pieces_[s].front().shard->update(*sgd_);
      }
      break;
    default: invariant(false, "heads and sends are not worked at");
  }
  finish(index);
  return true;
}

void Node::forward(const Task& task) {
  std::vector<Piece>& pieces = pieces_[static_cast<std::size_t>(task.stage)];
  const SampleRange samples = samples_of(task);
  pieces.front().input->write(samples, maps_.at(task.stage).values.samples(samples.first, samples.count));
  Slab& output = maps_.at(task.stage + 1);
  for (Piece& piece : pieces) {
    if (piece.fresh) piece.shard->set_state(*std::exchange(piece.fresh, std::nullopt));
    const DeviceTensor& made = piece.shard->forward(*pieces.front().input, pass_, samples);
    scratch_.resize(static_cast<std::size_t>(samples.count) * made.shape().sample_size());
    made.read(samples, scratch_);
    const float* from = scratch_.data();
    output.for_each_run(samples, piece.filters, [&](std::span<float> run) {
      std::copy_n(from, run.size(), run.data());
      from += run.size();
    });
  }
}

void Node::backward_input(const Task& task) {
  Piece& piece = pieces_[static_cast<std::size_t>(task.stage)].front();
  const SampleRange samples = samples_of(task);
  scratch_.clear();
  gradients_.at(task.stage + 1).for_each_run(samples, piece.filters, [&](std::span<float> run) {
    scratch_.insert(scratch_.end(), run.begin(), run.end());
  });
  piece.gradient->write(samples, scratch_);
  const DeviceTensor* part = piece.shard->backward_input(*piece.gradient, samples);
  if (part != nullptr) part->read(samples, parts_.at(task.stage).samples(samples.first, samples.count));
}

/// In the order of the shards, whatever order their parts came in.
void Node::add_up(const Task& task) {
  const SampleRange samples = samples_of(task);
  Slab& sum = gradients_.at(task.stage);
  bool first = true;
  for (const int before : task.after) {
    const auto add = [&](std::span<float> to, const float* from) {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = first ? from[i] : to[i] + from[i];
    };
    const auto flight = flights_.find(before);
    if (flight == flights_.end()) {
      const Tensor& own = parts_.at(task.stage);
      int n = samples.first;
      sum.for_each_run(samples, task.filters, [&](std::span<float> run) {
        add(run, &own.at(n++, task.filters.first));
      });
    } else {
      const std::byte* bytes = flight->second.bytes.data();
      sum.for_each_run(samples, task.filters, [&](std::span<float> run) {
        scratch_.resize(run.size());
        decode(plan_.wire, bytes, scratch_);
        bytes += run.size() * bytes_of(plan_.wire);
        add(run, scratch_.data());
      });
      flights_.erase(flight);
    }
    first = false;
  }
}

// ---- sending and receiving -----------------------------------------------------------------------------------------

void Node::send(int index) {
  const Task& sent = task(index);
  const SampleRange samples = samples_of(sent);
  AlignedVector<float> values;
  const auto gather = [&](std::span<const float> run) { values.insert(values.end(), run.begin(), run.end()); };
  NumberType type = plan_.wire;
  switch (sent.cargo) {
    case Cargo::maps: maps_.at(sent.stage).for_each_run(samples, sent.filters, gather); break;
    case Cargo::gradient: gradients_.at(sent.stage).for_each_run(samples, sent.filters, gather); break;
    case Cargo::part: {
      const Tensor& part = parts_.at(sent.stage);
      const std::size_t run = static_cast<std::size_t>(sent.filters.count) * part.shape().h * part.shape().w;
      for (int n = samples.first; n < samples.first + samples.count; ++n) {
        gather({&part.at(n, sent.filters.first), run});
      }
      break;
    }
    case Cargo::weights: {
      const ShardState state = pieces_[static_cast<std::size_t>(sent.stage)].front().shard->state();
      gather(state.weights.span());
      gather(state.bias.span());
      type = NumberType::fp32;
      break;
    }
  }
  for (std::size_t first = 0; first < values.size(); first += most_values_) {
    const std::size_t count = std::min(most_values_, values.size() - first);
    Parcel parcel{.task = index, .to = sent.to, .first = first, .bytes = std::vector<std::byte>(count * bytes_of(type))};
    encode(type, std::span<const float>(values).subspan(first, count), parcel.bytes.data());
    send_(std::move(parcel));
  }
  finish(index);
}

void Node::receive(int index, std::size_t first, std::span<const std::byte> bytes) {
  if (graph_ == nullptr || index < 0 || static_cast<std::size_t>(index) >= graph_->tasks.size() ||
      task(index).kind != TaskKind::send || task(index).to != index_) {
    fail("values of task {}, which sends nothing here", index);
  }
  const Task& sent = task(index);
  const NumberType type = sent.cargo == Cargo::weights ? NumberType::fp32 : plan_.wire;
  const std::size_t all = values_of(sent);
  Flight& flight = flights_[index];
  const std::size_t count = bytes.size() / bytes_of(type);
  if (first != flight.next || count == 0 || count * bytes_of(type) != bytes.size() || count > all - first) {
    fail("values {} to {} of task {}, where {} to {} are due", first, first + count, index, flight.next, all);
  }
  flight.next += count;
  flight.bytes.insert(flight.bytes.end(), bytes.begin(), bytes.end());
  if (flight.next < all) return;
  if (sent.cargo != Cargo::part) {
    if (sent.cargo == Cargo::weights) {
      scratch_.resize(all);
      decode(type, flight.bytes.data(), scratch_);
      take_weights(sent, scratch_);
    } else {
      Slab& to = (sent.cargo == Cargo::maps ? maps_ : gradients_).at(sent.stage);
      const std::byte* from = flight.bytes.data();
      to.for_each_run(samples_of(sent), sent.filters, [&](std::span<float> run) {
        decode(type, from, run);
        from += run.size() * bytes_of(type);
      });
    }
    flights_.erase(index);
  }
  finish(index);
}

/// Of another member's filters of a replicated stage.
void Node::take_weights(const Task& task, std::span<const float> values) {
  const Stage& stage = trunk_[static_cast<std::size_t>(task.stage)];
  const std::size_t filter = weight_shape(stage, 1).size();
  const float* biases = values.data() + filter * static_cast<std::size_t>(task.filters.count);
  for (Piece& piece : pieces_[static_cast<std::size_t>(task.stage)]) {
    if (piece.gradient != nullptr) continue;  // the own shard
    if (!piece.fresh) piece.fresh = piece.shard->state();
    for (int f = task.filters.first; f < task.filters.first + task.filters.count; ++f) {
      const int within = f - piece.filters.first;
      if (within < 0 || within >= piece.filters.count) continue;
      const auto at = static_cast<std::size_t>(f - task.filters.first);
      std::copy_n(values.data() + at * filter, filter, &piece.fresh->weights.at(within, 0));
      piece.fresh->bias.at(within, 0) = biases[at];
    }
  }
}

// ---- state ---------------------------------------------------------------------------------------------------------

ShardState Node::state(std::size_t stage) const { return pieces_[stage].front().shard->state(); }

void Node::set_state(std::size_t stage, const ShardState& whole) {
  for (Piece& piece : pieces_[stage]) {
    piece.shard->set_state(slice(whole, piece.filters));
    piece.fresh.reset();
  }
}

}  // namespace convoy
