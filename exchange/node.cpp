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
      device_(device),
      carrier_(std::move(carrier)),
      most_values_(most_values),
      training_(make_task_graph(plan, trunk, true)),
      testing_(make_task_graph(plan, trunk, false)),
      training_followers_(followers_of(training_)),
      testing_followers_(followers_of(testing_)),
      updates_(updates(training_, index)),
      outputs_(outputs_of(trunk)),
      pieces_(trunk.size()),
      input_of_(trunk.size()),
      made_(trunk.size()),
      gradient_by_(trunk.size()),
      seconds_(trunk.size(), 0.0),
      credit_(initial_credit(plan)) {
  if (!traits_of(plan_.exchange).fused_stages) {
    thesis_ = std::make_unique<ThesisNode>(plan_, trunk_, training_, index_);
  }
  held_ = held_boxes(plan_, training_, index_);
  residence_ = find_residence(plan_, trunk_, {&training_, &testing_}, index_);
  compile(device);
  make_slabs();
}

Node::~Node() = default;

int initial_credit(const Plan& plan) {
  constexpr int kOfAll = 64;
  return std::max(4, kOfAll / std::max(1, static_cast<int>(plan.members.size())));
}

/// The samples of a computing task, counted among the samples of the node's shard.
SampleRange Node::shard_samples(const Task& task) const {
  const int count = tile_samples(task.stage).count;
  return {task.micro_batch * count, count};
}

std::size_t Node::values_of(const Task& sent) const { return convoy::values_of(sent, trunk_); }

/// The number of values of a box of the maps of a sum.
std::size_t Node::values_in(const Box& box, const Task& sum) const {
  return maps_shape(trunk_, sum.stage, box.samples.count, box.channels.count).size();
}

bool Node::joins_gradients(int stage) const {
  const auto s = static_cast<std::size_t>(stage);
  return has_several_rows(plan_.stages[s]) && has_parameters(trunk_[s]);
}

// ---- the course of a step ------------------------------------------------------------------------------------------

void Node::begin(const StepWork& work, const Pixels* images) {
  invariant(finished(), "a step begins only after the step before it has finished");
  invariant(!work.pass || work.scales.size() == static_cast<std::size_t>(trunk_[0].channels),
            "each channel of the images has a scale");
  work_ = work;
  if (work.pass) pass_ = *work.pass;
  heads_.clear();
  const bool training = work.update || work.trains();
  graph_ = training ? &training_ : &testing_;
  followers_ = training ? &training_followers_ : &testing_followers_;
  if (work.pass) normaliser_.use(work.scales);
  if (images != nullptr) {
    if (!sent_ahead_) take_images(*images);
    for (int m = 0; m < plan_.micro_batches; ++m) normalise(m, pixels_.box.samples);
  }
  for (Input& input : inputs_) input.written.assign(static_cast<std::size_t>(plan_.micro_batches), false);
  missing_.assign(graph_->tasks.size(), 0);
  done_.assign(graph_->tasks.size(), false);
  gradients_left_ = 0;
  added_.clear();
  shared_.clear();
  const bool sent_ahead = std::exchange(sent_ahead_, false);
  for (std::size_t i = 0; i < graph_->tasks.size(); ++i) {
    const Task& each = graph_->tasks[i];
    done_[i] = !is_in(each, work) || (sent_ahead && goes_ahead(each));
    if (done_[i]) continue;
    missing_[i] = static_cast<std::size_t>(
        std::ranges::count_if(each.after, [&](int before) { return is_in(task(before), work); }));
    if (each.kind == TaskKind::head) heads_.push_back(static_cast<int>(i));
    if (each.node == index_ || each.to == index_) ++left_;
    if (finds_gradients(each)) ++gradients_left_;
    if (each.node == index_ && needs_credit(each, *graph_, plan_)) parts_to_send_.push_back(static_cast<int>(i));
  }
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    if (missing_[i] == 0 && !done_[i] && graph_->tasks[i].node == index_) make_ready(static_cast<int>(i));
  }
}

void Node::take_images(const Pixels& images) { std::ranges::copy(images.span(), pixels_.values.data()); }

/// Normalises the images of these samples of a micro-batch.
void Node::normalise(int micro_batch, SampleRange samples) {
  normaliser_.normalise(pixels_.values, pixels_.place(micro_batch, samples), maps_.at(Source::kImages).values);
}

/// Whether send_ahead() sends the values of a task.
bool Node::goes_ahead(const Task& task) const {
  return task.kind == TaskKind::send && task.node == index_ && task.stage == Source::kImages && task.after.empty();
}

void Node::send_ahead(const Pixels& images) {
  if (graph_ != &training_) return;
  invariant(outputs_ready() == static_cast<int>(heads_.size()), "the images of the step before are in use no more");
  take_images(images);
  shared_.clear();
  for (std::size_t i = 0; i < training_.tasks.size(); ++i) {
    if (goes_ahead(training_.tasks[i])) send_values(static_cast<int>(i));
  }
  shared_.clear();
  sent_ahead_ = true;
}

/// Whether the node knows more of its own filters' gradients after a task.
bool Node::finds_gradients(const Task& task) const {
  if (task.node != index_) return false;
  return task.kind == TaskKind::filter_sum || (task.kind == TaskKind::backward_filters && !joins_gradients(task.stage));
}

void Node::make_ready(int index) {
  switch (task(index).kind) {
    case TaskKind::send:
      if (!needs_credit(task(index), *graph_, plan_)) return send(index);
      done_[static_cast<std::size_t>(index)] = true;  // the values to send are known
      return send_parts();
    case TaskKind::head:
      if (!work_.trains()) finish(index);
      return;
    case TaskKind::head_update: return finish(index);  // the node's owner updates the heads
    case TaskKind::sum:
      if (task(index).after.empty()) add_up(index);  // a sum without addends is set to zero
      return finish(index);                          // other sums were computed as their addends arrived
    default: break;
  }
  ready_.insert(index);
}

void Node::finish(int index) {
  --left_;
  done_[static_cast<std::size_t>(index)] = true;
  if (finds_gradients(task(index))) --gradients_left_;
  if (task(index).kind == TaskKind::backward_input) {
    for (const int follower : (*followers_)[static_cast<std::size_t>(index)]) {
      if (task(follower).node != index_ || task(follower).kind != TaskKind::sum) continue;
      if (adds_here(task(follower).stage)) continue;
      for (const int added : add_up(follower)) finish(added);
    }
  }
  release(index);
}

void Node::release(int index) {
  for (const int follower : (*followers_)[static_cast<std::size_t>(index)]) {
    if (task(follower).node != index_ || !is_in(task(follower), work_)) continue;
    if (--missing_[static_cast<std::size_t>(follower)] == 0) make_ready(follower);
  }
}

const Tensor& Node::output(std::size_t number) const { return maps_.at(outputs_[number]).values; }

int Node::outputs_ready() const {
  const auto waits = [this](int head) { return missing_[static_cast<std::size_t>(head)] > 0; };
  return static_cast<int>(std::ranges::find_if(heads_, waits) - heads_.begin());
}

void Node::give_gradients(const std::vector<const Tensor*>& gradients, int micro_batch) {
  const int head = heads_[static_cast<std::size_t>(micro_batch)];
  const int count = micro_batch_size(plan_);
  const SampleRange samples{micro_batch * count, count};
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const std::size_t each = gradients[i]->size() / static_cast<std::size_t>(plan_.batch);
    const std::size_t first = each * static_cast<std::size_t>(samples.first);
    const std::span<const float> part =
        gradients[i]->span().subspan(first, each * static_cast<std::size_t>(samples.count));
    std::ranges::copy(part, gradients_.at(outputs_[i]).values.data() + first);
  }
  finish(head);
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
    case TaskKind::layers: thesis_->layers(next.stage, pass_, maps_.at(next.stage)); break;
    case TaskKind::layers_backward: thesis_->layers_backward(next.stage, gradients_.at(next.stage)); break;
    case TaskKind::backward_filters: backward_filters(next); break;
    case TaskKind::filter_sum: sum_filters(next); break;
    case TaskKind::statistics: find_statistics(next); break;
    case TaskKind::join_statistics: join_statistics(next); break;
    case TaskKind::take_statistics: take_statistics(next); break;
    case TaskKind::update: update(next); break;
    default: invariant(false, "heads, sums and sends never become ready tasks of work()");
  }
  seconds_[static_cast<std::size_t>(next.stage)] += watch.seconds();
  finish(index);
  return true;
}

std::optional<int> Node::awaited_sender() const {
  if (graph_ == nullptr) return std::nullopt;
  for (std::size_t i = 0; i < graph_->tasks.size(); ++i) {
    const Task& each = graph_->tasks[i];
    if (each.kind == TaskKind::send && each.to == index_ && !done_[i]) return each.node;
  }
  return std::nullopt;
}

double Node::gradient_squares() const {
  double sum = 0.0;
  for (std::size_t s = 0; s < pieces_.size(); ++s) {
    const std::vector<Piece>& pieces = pieces_[s];
    if (pieces.empty() || !pieces.front().backward) continue;
    if (!joins_gradients(static_cast<int>(s))) {
      sum += convoy::gradient_squares(*pieces.front().shard);
    } else if (const FilterRange owned = own(s); owned.count > 0) {
      const int first = owned.first - pieces.front().filters.first;
      for (const Tensor& gradient : filter_sums_.at(static_cast<int>(s))) {
        if (gradient.size() > 0) sum += sum_of_squares<float>(gradient.samples(first, owned.count));
      }
    }
  }
  return sum;
}

std::vector<std::uint32_t> Node::broken_stages() const {
  std::vector<std::uint32_t> broken;
  for (std::size_t s = 0; s < trunk_.size(); ++s) {
    if (own(s).count > 0 && !pieces_[s].front().shard->finite()) broken.push_back(static_cast<std::uint32_t>(s));
  }
  return broken;
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
  return stage < trunk_.size() ? held_[stage].channels : FilterRange{};
}

ShardState Node::state(std::size_t stage, FilterRange filters) const {
  const Piece& tile = pieces_[stage].front();
  return slice(tile.shard->state(), {filters.first - tile.filters.first, filters.count});
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
    use_fresh(piece);
    ShardState whole = piece.shard->state();
    paste(part_of(here), {here.first - piece.filters.first, here.count}, whole);
    piece.shard->set_state(whole);
  }
  if (sends_weights()) paste(state, filters, thesis_->weights(stage));
}

}  // namespace convoy
