#include "exchange/node.hpp"

#include <algorithm>

#include "core/stopwatch.hpp"

namespace convoy {
namespace {

/// A number that identifies the values of a send, whichever node receives them. It seeds the random rounding, so all
/// receivers of the same values get the same roundings, in any order of sending.
std::uint64_t name_of_values(const Task& sent) {
  const bool addend = sent.cargo == Cargo::part || sent.cargo == Cargo::filter_part;
  std::uint64_t name = static_cast<std::uint64_t>(sent.cargo);
  for (const int part :
       {sent.stage, sent.micro_batch, sent.filters.first, sent.samples.first, addend ? sent.node : 0}) {
    name = name * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(part) + 1;
  }
  return name << 20U;
}

/// Returns whether a send brings the statistics of all rows.
bool is_joint(const Task& sent) { return sent.cargo == Cargo::joint_moments || sent.cargo == Cargo::joint_slopes; }

/// Returns whether a send brings gradients of weights or statistics of one holder, which wait for those of the others.
bool is_of_one_holder(const Task& sent) {
  return sent.cargo == Cargo::filter_part || (carries_statistics(sent) && !is_joint(sent));
}

/// Returns the places of `count` of the values in `places`, from index `first` on.
std::vector<std::span<const float>> cut(const std::vector<std::span<const float>>& places, std::size_t first,
                                        std::size_t count) {
  std::vector<std::span<const float>> some;
  for (const std::span<const float> place : places) {
    const std::size_t skipped = std::min(first, place.size());
    const std::size_t taken = std::min(count, place.size() - skipped);
    if (taken > 0) some.push_back(place.subspan(skipped, taken));
    first -= skipped;
    count -= taken;
  }
  return some;
}

}  // namespace

Node::Node(const Plan& plan, const std::vector<Stage>& trunk, int index, Device* device, Carrier carrier,
           std::size_t most_values)
    : plan_(plan, trunk, index),
      thesis_(plan_.thesis ? std::make_unique<ThesisNode>(plan_.plan, plan_.trunk, plan_.training, index) : nullptr),
      schedule_(plan_),
      host_(plan_, thesis_.get()),
      shards_(plan_, host_, sends_weights(), device),
      sums_(plan_, schedule_, host_, flights_, carrier),
      weight_sums_(plan_, plan_.training, flights_),
      statistics_(plan_, flights_),
      outbox_(
          plan_, schedule_, carrier,
          [this](const Task& sent, std::size_t first, std::size_t count, std::byte* to) {
            encode(sent, first, count, to);
          },
          most_values),
      updates_(updates(plan_.training, index)),
      seconds_(trunk.size(), 0.0) {}

// ---- the course of a step ------------------------------------------------------------------------------------------

void Node::begin(const StepWork& work, const Pixels* images) {
  invariant(finished(), "a step begins only after the step before it has finished");
  invariant(!work.pass || work.scales.size() == static_cast<std::size_t>(trunk()[0].channels),
            "each channel of the images has a scale");
  work_ = work;
  if (work.pass) {
    pass_ = *work.pass;
    host_.use(work.scales);
  }
  if (images != nullptr) {
    sent_ahead_ ? host_.use_next_images() : host_.take_images(*images);
  }
  shards_.begin_step();
  sums_.begin_step();
  const bool sent_ahead = std::exchange(sent_ahead_, false);
  const std::vector<int> free = schedule_.begin(work, [&](const Task& task) { return sent_ahead && goes_ahead(task); });
  outbox_.begin_step();
  for (const int index : free) make_ready(index);
}

/// Whether send_ahead() sends the values of a task.
bool Node::goes_ahead(const Task& task) const {
  return task.kind == TaskKind::send && task.node == plan_.index && task.stage == Source::kImages && task.after.empty();
}

void Node::send_ahead(const Pixels& images) {
  if (!schedule_.is_training()) return;
  invariant(outputs_ready() == static_cast<int>(schedule_.heads().size()),
            "the images of the step before are in use no more");
  host_.take_next_images(images);
  std::vector<int> tasks;
  for (std::size_t i = 0; i < graph().tasks.size(); ++i) {
    if (goes_ahead(graph().tasks[i])) tasks.push_back(static_cast<int>(i));
  }
  outbox_.send_ahead(tasks);
  sent_ahead_ = true;
}

/// A task of the node waits for no other any more.
void Node::make_ready(int index) {
  const Task& task = schedule_.task(index);
  switch (task.kind) {
    case TaskKind::send:
      if (needs_credit(task, schedule_.graph(), plan_.plan)) return finish_all(outbox_.offer_part(index));
      passes_on(task, schedule_.graph()) ? outbox_.pass_on(index) : outbox_.send(index);
      return finish(index);
    case TaskKind::head:
      if (!work_.trains()) finish(index);
      return;
    case TaskKind::head_update: return finish(index);  // the node's owner updates the heads
    case TaskKind::sum:
      if (task.after.empty()) sums_.add_up(index);  // a sum without addends is set to zero
      return finish(index);                         // other sums were computed as their addends arrived
    default: schedule_.make_ready(index);
  }
}

void Node::finish(int index) {
  const std::vector<int> free = schedule_.finish(index);
  if (schedule_.task(index).kind == TaskKind::backward_input) {
    for (const int follower : schedule_.followers(index)) {
      const Task& task = schedule_.task(follower);
      if (task.node != plan_.index || task.kind != TaskKind::sum || plan_.adds_here(task.stage)) continue;
      finish_all(sums_.add_up(follower));
    }
  }
  for (const int each : free) make_ready(each);
}

void Node::finish_all(const std::vector<int>& tasks) {
  for (const int each : tasks) finish(each);
}

const Tensor& Node::output(std::size_t number) const { return host_.maps(outputs_of(trunk())[number])->values; }

void Node::give_gradients(const std::vector<const Tensor*>& gradients, int micro_batch) {
  const std::vector<int> outputs = outputs_of(trunk());
  const int count = micro_batch_size(plan_.plan);
  const SampleRange samples{micro_batch * count, count};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::size_t each = gradients[i]->size() / static_cast<std::size_t>(plan_.plan.batch);
    const std::size_t first = each * static_cast<std::size_t>(samples.first);
    const std::span<const float> part =
        gradients[i]->span().subspan(first, each * static_cast<std::size_t>(samples.count));
    if (plan_.from_heads(outputs[i])) {
      shards_.take_gradient(outputs[i], samples, part);
    } else {
      std::ranges::copy(part, host_.gradient(outputs[i]).values.data() + first);
    }
  }
  finish(schedule_.heads()[micro_batch]);
}

bool Node::work() {
  const std::optional<int> next = schedule_.take_ready();
  if (!next) return false;
  const Stopwatch watch;
  const Task& task = schedule_.task(*next);
  run(task);
  seconds_[task.stage] += watch.seconds();
  finish(*next);
  return true;
}

void Node::run(const Task& task) {
  const int stage = task.stage;
  switch (task.kind) {
    case TaskKind::forward: return shards_.forward(task, pass_);
    case TaskKind::backward_input: return shards_.backward_input(task);
    case TaskKind::layers: return thesis_->layers(stage, pass_, *host_.maps(stage));
    case TaskKind::layers_backward: return thesis_->layers_backward(stage, host_.gradient(stage));
    case TaskKind::backward_filters:
      shards_.tile(stage)->backward_filters();
      if (plan_.joins_gradients(stage)) weight_sums_.take_own(stage, shards_.tile(stage)->gradients());
      return;
    case TaskKind::filter_sum: return weight_sums_.add_up(task);
    case TaskKind::statistics: return statistics_.take_own(stage, shards_.find_statistics(task));
    case TaskKind::join_statistics: return statistics_.join(task);
    case TaskKind::take_statistics: return shards_.take_statistics(task, statistics_.joint(task));
    case TaskKind::update: return update(task);
    default: invariant(false, "heads, sums and sends never become ready tasks of work()");
  }
}

/// Updates the node's tile of a stage. A shard updates all its filters: where the node does not know the sum of the
/// gradients, the owner's weights replace the values that this gives, and their moments are never read.
void Node::update(const Task& task) {
  Shard& shard = *shards_.tile(task.stage);
  if (plan_.joins_gradients(task.stage)) shard.set_gradients(weight_sums_.of(task.stage));
  shard.update(*work_.update);
}

// ---- sending -------------------------------------------------------------------------------------------------------

void Node::encode(const Task& sent, std::size_t first, std::size_t count, std::byte* to) {
  if (carries_images(sent)) return host_.encode_pixels(sent, first, count, to);
  const std::uint64_t seed = pass_.seed + name_of_values(sent) + first;
  if (!concerns_weights(sent) && !carries_statistics(sent)) return host_.encode_values(sent, first, count, seed, to);
  encode_places(wire_type(sent, plan_.plan), cut(places_to_send(sent, first == 0), first, count), to, seed);
}

/// The places of the values of a send of weights, of their gradients or of statistics. Weights and statistics are
/// copied at the `first` parcel of the send.
std::vector<std::span<const float>> Node::places_to_send(const Task& sent, bool first) {
  if (sent.cargo == Cargo::filter_part || sent.cargo == Cargo::filter_sum) return weight_sums_.to_send(sent);
  if (first) sent.cargo == Cargo::weights ? copy_weights(sent) : statistics_.put_to_send(sent, to_send_);
  return {to_send_};
}

void Node::copy_weights(const Task& sent) {
  const ShardState state = sends_weights() ? slice(thesis_->weights(static_cast<std::size_t>(sent.stage)), sent.filters)
                                           : shards_.state(sent.stage, sent.filters);
  to_send_.clear();
  for (const Parameter& each : state.parameters) {
    to_send_.insert(to_send_.end(), each.value.span().begin(), each.value.span().end());
  }
}

// ---- receiving -----------------------------------------------------------------------------------------------------

/// Returns the number of values in a parcel. Throws Error unless they are the next values of a task that sends here.
std::size_t Node::expect_due(int from, int index, std::size_t first, const Bytes& bytes) const {
  if (!schedule_.has_begun() || !schedule_.is_task(index) || schedule_.task(index).kind != TaskKind::send ||
      schedule_.task(index).to != plan_.index || schedule_.task(index).node != from || schedule_.is_done(index)) {
    fail("values of task {} came from node {}, which has no such task to send here in this step", index, from);
  }
  const Task& sent = schedule_.task(index);
  const std::size_t all = schedule_.values(index);
  const auto flight = flights_.find(index);
  const std::size_t received = flight == flights_.end() ? 0 : flight->second.received;
  const NumberType type = wire_type(sent, plan_.plan);
  const std::size_t size = bytes.values.size();
  const std::size_t count =
      carries_images(sent) ? size : values_in(type, size);  // 0: they are no whole number of values
  if (first != received || count == 0 || count > all - first) {
    fail("{} bytes from value {} on of task {} came where values {} to {} are due, in {}", size, first, index, received,
         all, carries_images(sent) ? "pixels" : to_string(type));
  }
  return count;
}

void Node::receive(int from, int index, std::size_t first, const Bytes& bytes) {
  const std::size_t count = expect_due(from, index, first, bytes);
  const Task& sent = schedule_.task(index);
  Flight& flight = flights_[index];
  flight.received += count;
  if (sent.cargo == Cargo::part) return take_part(index, bytes);
  const bool passed_on = outbox_.is_passed_on(index);
  const bool used_whole = concerns_weights(sent) || carries_statistics(sent);
  if (passed_on) outbox_.keep(index, bytes);
  if (carries_images(sent)) {
    host_.place_pixels(sent, first, bytes);
  } else if (used_whole) {
    if (!passed_on || !is_of_one_holder(sent)) flight.held.push_back(as_kept(sent, plan_.plan, bytes));
  } else if (!passed_on) {
    host_.place(sent, first, as_kept(sent, plan_.plan, bytes));
  }
  if (flight.received == schedule_.values(index)) take_whole(index);
}

const Task* Node::images_due(int from, int index, bool next) const {
  if (index < 0 || (!next && !schedule_.has_begun())) return nullptr;
  const std::vector<Task>& tasks = next ? graph().tasks : schedule_.graph().tasks;
  if (static_cast<std::size_t>(index) >= tasks.size()) return nullptr;
  const Task& sent = tasks[index];
  const bool begun = !next && (schedule_.is_done(index) || flights_.contains(index));
  const bool whole = sent.filters == FilterRange{0, trunk().front().channels};
  return carries_images(sent) && sent.node == from && sent.to == plan_.index && whole && !begun ? &sent : nullptr;
}

/// Takes values of one node's part of a gradient.
void Node::take_part(int index, const Bytes& bytes) {
  const Task& sent = schedule_.task(index);
  std::deque<Bytes>& held = flights_.at(index).held;
  const bool limited = needs_credit(sent, schedule_.graph(), plan_.plan);
  if (limited && held.size() >= static_cast<std::size_t>(initial_credit(plan_.plan))) {
    fail("more parts of a gradient came than the credit allows");
  }
  held.push_back(as_kept(sent, plan_.plan, bytes));
  for (const int follower : schedule_.followers(index)) finish_all(sums_.add_up(follower));
}

/// All values of a send have arrived.
void Node::take_whole(int index) {
  const Task& sent = schedule_.task(index);
  // A filter_sum or join_statistics takes the values.
  if (is_of_one_holder(sent) && !outbox_.is_passed_on(index)) return finish(index);
  if (sent.cargo == Cargo::weights) take_weights(index);
  if (sent.cargo == Cargo::filter_sum) weight_sums_.take_sum(index);
  if (is_joint(sent)) statistics_.take_joint(index);
  flights_.erase(index);
  finish(index);
}

/// Takes parameters that another member sends: filters that it owns or, in the thesis' exchange, the weights from the
/// master to a slave and the updated weights from a slave to the master.
void Node::take_weights(int index) {
  const Task& sent = schedule_.task(index);
  // A master passes on weights that it updates itself. They may arrive after its forward pass, and would replace later
  // ones.
  const bool updates_them = plan_.joins_gradients(sent.stage) && takes_sums(plan_.plan, sent.node, plan_.index);
  if (plan_.is_master() && updates_them) return;
  convoy::take_floats(flights_.at(index), sent, plan_.plan, scratch_);
  const auto stage = static_cast<std::size_t>(sent.stage);
  if (sends_weights()) return put_weights(sent.filters, scratch_, held(stage), thesis_->weights(stage));
  shards_.take_weights(sent.stage, sent.filters, scratch_);
}

// ---- gradients and state -------------------------------------------------------------------------------------------

bool Node::gradients_known(std::size_t stage) const {
  if (finished()) return true;
  bool found = false;
  for (std::size_t i = 0; i < schedule_.graph().tasks.size(); ++i) {
    const Task& task = schedule_.graph().tasks[i];
    if (static_cast<std::size_t>(task.stage) != stage || !plan_.finds_gradients(task)) continue;
    if (!schedule_.is_done(static_cast<int>(i))) return false;
    found = true;
  }
  return found;  // running averages of a frozen stage are known at the end of the step
}

double Node::gradient_squares() const {
  double sum = 0.0;
  for (std::size_t s = 0; s < trunk().size(); ++s) {
    const int stage = static_cast<int>(s);
    if (!shards_.goes_backward(stage)) continue;
    if (!plan_.joins_gradients(stage)) {
      sum += convoy::gradient_squares(*shards_.tile(stage));
    } else if (const FilterRange owned = own(s); owned.count > 0) {
      const int first = owned.first - plan_.tile(stage).filters.first;
      for (const Tensor& gradient : weight_sums_.of(stage)) {
        if (gradient.size() > 0) sum += sum_of_squares<float>(gradient.samples(first, owned.count));
      }
    }
  }
  return sum;
}

ShardState Node::gradients(std::size_t stage, FilterRange filters) const {
  const int s = static_cast<int>(stage);
  ShardState state = gradient_state(*shards_.tile(s));
  if (plan_.joins_gradients(s)) {
    const std::vector<Tensor>& sums = weight_sums_.of(s);
    for (std::size_t p = 0; p < sums.size(); ++p) {
      if (sums[p].size() > 0) state.parameters[p].value = sums[p];
    }
  }
  return slice(state, {filters.first - plan_.tile(s).filters.first, filters.count});
}

std::vector<std::uint32_t> Node::broken_stages() const {
  std::vector<std::uint32_t> broken;
  for (std::size_t s = 0; s < trunk().size(); ++s) {
    if (own(s).count > 0 && !shards_.tile(static_cast<int>(s))->finite())
      broken.push_back(static_cast<std::uint32_t>(s));
  }
  return broken;
}

std::size_t Node::bytes_due() const {
  double bytes = 0.0;
  for (const Task& each : graph().tasks) {
    if (each.to == plan_.index) bytes += bytes_of(each, plan_.plan, trunk());
  }
  return static_cast<std::size_t>(bytes);
}

FilterRange Node::own(std::size_t stage) const {
  return stage < trunk().size() ? own_filters(plan_.plan, stage, plan_.index) : FilterRange{};
}

FilterRange Node::held(std::size_t stage) const {
  return stage < trunk().size() ? plan_.held[stage].channels : FilterRange{};
}

std::vector<FilterState> Node::updated_states() const {
  std::vector<FilterState> states;
  for (std::size_t s = 0; s < trunk().size(); ++s) {
    for (const FilterRange& filters : updated_filters(plan_.plan, s, plan_.index)) {
      states.push_back({s, filters, state(s, filters)});
    }
  }
  return states;
}

void Node::set_state(std::size_t stage, FilterRange filters, const ShardState& state) {
  shards_.set_state(static_cast<int>(stage), filters, state);
  if (sends_weights()) paste(state, filters, thesis_->weights(stage));
}

}  // namespace convoy
