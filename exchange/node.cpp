#include "exchange/node.hpp"

#include <algorithm>
#include <utility>

#include "core/stopwatch.hpp"

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

  std::size_t map() const {
    return static_cast<std::size_t>(values.shape().h) * static_cast<std::size_t>(values.shape().w);
  }
  std::span<float> run(int sample, FilterRange channels) {
    return values.sample(sample).subspan(static_cast<std::size_t>(channels.first - first) * map(),
                                         static_cast<std::size_t>(channels.count) * map());
  }
  /// Of the box of samples and channels in the order of NCHW, values begin .. begin + count - 1: calls visit(values that
  /// lie together) for all of them in turn.
  template <class Visit>
  void for_each_run(SampleRange samples, FilterRange channels, std::size_t begin, std::size_t count, Visit visit) {
    const std::size_t length = static_cast<std::size_t>(channels.count) * map();
    while (count > 0) {
      const std::size_t within = begin % length;
      const std::size_t step = std::min(count, length - within);
      visit(run(samples.first + static_cast<int>(begin / length), channels).subspan(within, step));
      begin += step;
      count -= step;
    }
  }
};

struct Node::Flight {
  std::size_t received = 0;  ///< values
  std::size_t added = 0;     ///< of a part: values that are in the sum
  std::deque<Bytes> held;    ///< of a part, until its turn; of weights
};

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
      pieces_(trunk.size()) {
  compile(device);
  make_slabs();
}

Node::~Node() = default;

void Node::compile(Device* device) {
  for (std::size_t s = 0; s < trunk_.size(); ++s) {
    const FilterRange own = own_filters(plan_, s, index_);
    const FilterRange held = held_filters(plan_, training_, s, index_);
    std::vector<FilterRange> ranges;
    if (own.count > 0) ranges.push_back(own);
    if (held.count > own.count) {
      const int behind = own.first + own.count;
      if (own.first > 0) ranges.push_back({0, own.first});
      if (behind < held.count) ranges.push_back({behind, held.count - behind});
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

NumberType Node::type_of(const Task& sent) const {
  return sent.cargo == Cargo::weights ? NumberType::fp32 : plan_.wire;
}

std::size_t Node::values_of(const Task& sent) const {
  return static_cast<std::size_t>(bytes_of(sent, plan_, trunk_)) / bytes_of(type_of(sent));
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
  done_.assign(graph_->tasks.size(), false);
  turns_.clear();
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

void Node::allow_update(const SgdStep& step) {
  sgd_ = step;
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
    case TaskKind::backward_filters: pieces_[static_cast<std::size_t>(next.stage)].front().shard->backward_filters(); break;
    case TaskKind::update:
      for (std::size_t s = 0; s < trunk_.size(); ++s) {
        if (own_filters(plan_, s, index_).count > 0) pieces_[s].front().shard->update(*sgd_);
      }
      break;
    default: invariant(false, "heads, sums and sends are not worked at");
  }
  seconds_ += watch.seconds();
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
    for (int n = samples.first; n < samples.first + samples.count; ++n) {
      const std::span<float> run = output.run(n, piece.filters);
      std::copy_n(from, run.size(), run.data());
      from += run.size();
    }
  }
}

void Node::backward_input(const Task& task) {
  Piece& piece = pieces_[static_cast<std::size_t>(task.stage)].front();
  const SampleRange samples = samples_of(task);
  scratch_.clear();
  for (int n = samples.first; n < samples.first + samples.count; ++n) {
    const std::span<const float> run = gradients_.at(task.stage + 1).run(n, piece.filters);
    scratch_.insert(scratch_.end(), run.begin(), run.end());
  }
  piece.gradient->write(samples, scratch_);
  const DeviceTensor* part = piece.shard->backward_input(*piece.gradient, samples);
  if (part != nullptr) part->read(samples, parts_.at(task.stage).values.samples(samples.first, samples.count));
}

// ---- sums ----------------------------------------------------------------------------------------------------------

namespace {

void accumulate(const float* from, std::span<float> to, bool first) {
  if (first) {
    std::copy_n(from, to.size(), to.data());
  } else {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }
}

}  // namespace

/// Adds what is here and whose turn it is, in the order of the shards, whatever order their parts came in. The sends that
/// are all added.
std::vector<int> Node::add_up(int index) {
  const Task& sum = task(index);
  std::size_t& turn = turns_[index];
  std::vector<int> added;
  for (; turn < sum.after.size(); ++turn) {
    const int next = sum.after[turn];
    if (task(next).kind != TaskKind::send) {
      if (!done_[static_cast<std::size_t>(next)]) break;
      add_own_part(index);
      continue;
    }
    Flight& flight = flights_[next];
    while (!flight.held.empty()) {
      add(index, flight, flight.held.front());
      flight.held.pop_front();
      if (needs_credit(task(next), *graph_, plan_)) carrier_.grant(task(next).node);
    }
    if (flight.added < values_of(task(next))) break;
    flights_.erase(next);
    added.push_back(next);
  }
  return added;
}

void Node::add_own_part(int index) {
  const Task& sum = task(index);
  const SampleRange samples = samples_of(sum);
  const bool first = turns_.at(index) == 0;
  for (int n = samples.first; n < samples.first + samples.count; ++n) {
    accumulate(parts_.at(sum.stage).run(n, sum.filters).data(), gradients_.at(sum.stage).run(n, sum.filters), first);
  }
}

void Node::add(int index, Flight& flight, const Bytes& bytes) {
  const Task& sum = task(index);
  const bool first = turns_.at(index) == 0;
  const std::byte* from = bytes.values.data();
  const std::size_t count = bytes.values.size() / bytes_of(plan_.wire);
  gradients_.at(sum.stage).for_each_run(samples_of(sum), sum.filters, flight.added, count, [&](std::span<float> run) {
    if (first) {
      decode(plan_.wire, from, run);
    } else {
      scratch_.resize(run.size());
      decode(plan_.wire, from, scratch_);
      accumulate(scratch_.data(), run, false);
    }
    from += run.size() * bytes_of(plan_.wire);
  });
  flight.added += count;
}

// ---- sending and receiving -----------------------------------------------------------------------------------------

Node::Slab& Node::slab_of(const Task& sent) {
  switch (sent.cargo) {
    case Cargo::gradient: return gradients_.at(sent.stage);
    case Cargo::part: return parts_.at(sent.stage);
    default: return maps_.at(sent.stage);
  }
}

void Node::send(int index) {
  const std::size_t all = values_of(task(index));
  for (std::size_t first = 0; first < all;) first += send_some(index, first, most_values_);
  finish(index);
}

/// In the graph's order, one after another, as far as the credit goes: with any other order two senders could wait for
/// each other, each with its credit spent on parts whose turn is not yet.
void Node::send_parts() {
  while (credit_ > 0 && !parts_to_send_.empty() && done_[static_cast<std::size_t>(parts_to_send_.front())]) {
    const int index = parts_to_send_.front();
    part_sent_ += send_some(index, part_sent_, most_values_);
    --credit_;
    if (part_sent_ < values_of(task(index))) continue;
    part_sent_ = 0;
    parts_to_send_.pop_front();
    finish(index);
  }
}

void Node::grant() {
  ++credit_;
  send_parts();
}

std::size_t Node::send_some(int index, std::size_t first, std::size_t most) {
  const std::size_t count = std::min(most, values_of(task(index)) - first);
  carrier_.send({.task = index, .to = task(index).to, .first = first, .bytes = encoded(index, first, count)});
  return count;
}

Bytes Node::encoded(int index, std::size_t first, std::size_t count) {
  const Task& sent = task(index);
  const auto same_values = [&](const Task& other) {
    return sent.cargo == other.cargo && sent.stage == other.stage && sent.micro_batch == other.micro_batch &&
           sent.filters == other.filters;
  };
  if (!shared_.empty() && !same_values(task(shared_.front().task))) shared_.clear();
  for (const Parcel& parcel : shared_) {
    if (parcel.first == first) return parcel.bytes;
  }
  const NumberType type = type_of(sent);
  const auto owner = std::make_shared<AlignedVector<std::byte>>(count * bytes_of(type));
  std::byte* to = owner->data();
  if (sent.cargo == Cargo::weights) {
    const ShardState state = pieces_[static_cast<std::size_t>(sent.stage)].front().shard->state();
    scratch_.assign(state.weights.span().begin(), state.weights.span().end());
    scratch_.insert(scratch_.end(), state.bias.span().begin(), state.bias.span().end());
    encode(type, std::span<const float>(scratch_).subspan(first, count), to);
  } else {
    slab_of(sent).for_each_run(samples_of(sent), sent.filters, first, count, [&](std::span<const float> run) {
      encode(type, run, to);
      to += run.size() * bytes_of(type);
    });
  }
  const Bytes bytes{owner, *owner};
  if (sent.cargo != Cargo::part) shared_.push_back({.task = index, .to = sent.to, .first = first, .bytes = bytes});
  return bytes;
}

void Node::receive(int from, int index, std::size_t first, const Bytes& bytes) {
  if (graph_ == nullptr || index < 0 || static_cast<std::size_t>(index) >= graph_->tasks.size() ||
      task(index).kind != TaskKind::send || task(index).to != index_ || task(index).node != from ||
      done_[static_cast<std::size_t>(index)]) {
    fail("values of task {}, of which it has none to send here", index);
  }
  const Task& sent = task(index);
  const std::size_t all = values_of(sent);
  Flight& flight = flights_[index];
  const std::size_t size = bytes_of(type_of(sent));
  const std::size_t count = bytes.values.size() / size;
  if (first != flight.received || count == 0 || count * size != bytes.values.size() || count > all - first) {
    fail("{} bytes from value {} on of task {}, where values {} to {} are due, of {} bytes", bytes.values.size(), first,
         index, flight.received, all, size);
  }
  flight.received += count;
  if (sent.cargo == Cargo::part) {
    if (needs_credit(sent, *graph_, plan_) && flight.held.size() >= static_cast<std::size_t>(kInitialCredit)) {
      fail("more parts of a gradient than its credit allows");
    }
    flight.held.push_back(bytes);
    for (const int follower : (*followers_)[static_cast<std::size_t>(index)]) {
      for (const int added : add_up(follower)) finish(added);
    }
    return;
  }
  if (sent.cargo == Cargo::weights) {
    flight.held.push_back(bytes);
  } else {
    place(sent, first, bytes);
  }
  if (flight.received < all) return;
  if (sent.cargo == Cargo::weights) {
    scratch_.resize(all);
    std::byte* to = std::as_writable_bytes(std::span(scratch_)).data();
    for (const Bytes& part : flight.held) to = std::ranges::copy(part.values, to).out;
    take_weights(sent, scratch_);
  }
  flights_.erase(index);
  finish(index);
}

void Node::place(const Task& sent, std::size_t first, const Bytes& bytes) {
  const std::byte* from = bytes.values.data();
  const std::size_t count = bytes.values.size() / bytes_of(plan_.wire);
  slab_of(sent).for_each_run(samples_of(sent), sent.filters, first, count, [&](std::span<float> run) {
    decode(plan_.wire, from, run);
    from += run.size() * bytes_of(plan_.wire);
  });
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

FilterRange Node::own(std::size_t stage) const {
  return stage < trunk_.size() ? own_filters(plan_, stage, index_) : FilterRange{};
}

FilterRange Node::held(std::size_t stage) const {
  return stage < trunk_.size() ? held_filters(plan_, training_, stage, index_) : FilterRange{};
}

ShardState Node::state(std::size_t stage) const { return pieces_[stage].front().shard->state(); }

void Node::set_state(std::size_t stage, const ShardState& state) {
  const int first = held(stage).first;
  for (Piece& piece : pieces_[stage]) {
    piece.shard->set_state(slice(state, {piece.filters.first - first, piece.filters.count}));
    piece.fresh.reset();
  }
}

}  // namespace convoy
