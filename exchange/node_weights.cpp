// The weights of a node: their gradients, their update, and the parameters that other nodes send.

#include <algorithm>
#include <utility>

#include "core/stopwatch.hpp"
#include "exchange/node_parts.hpp"

namespace convoy {
namespace {

/// Copies received parameters into `state`, the state of filters `range`. `values` are all parameters of filters `of`,
/// as they travel; filters outside `range` are ignored.
void put_weights(FilterRange of, std::span<const float> values, FilterRange range, ShardState& state) {
  const FilterRange both = common(of, range);
  for (Parameter& parameter : state.parameters) {
    const std::size_t filter = parameter.value.shape().sample_size();
    std::copy_n(values.data() + filter * static_cast<std::size_t>(both.first - of.first),
                filter * static_cast<std::size_t>(both.count),
                parameter.value.data() + filter * static_cast<std::size_t>(both.first - range.first));
    values = values.subspan(filter * static_cast<std::size_t>(of.count));
  }
}

/// Returns the tensors of the gradients of `filters` filters, all 0; the tensor of an untrained parameter is empty.
std::vector<Tensor> zero_gradients(const Stage& stage, int filters) {
  std::vector<Tensor> gradients;
  for (const ParameterSpec& each : parameters_of(stage, filters)) {
    gradients.push_back(each.trained ? Tensor(each.shape, 0.0F) : Tensor());
  }
  return gradients;
}

/// The values of some filters in the gradients of one parameter of filters `of`.
template <class T>
auto run_of(T& gradient, FilterRange of, FilterRange some) {
  return gradient.samples(some.first - of.first, some.count);
}

}  // namespace

// ---- gradients -----------------------------------------------------------------------------------------------------

void Node::backward_filters(const Task& task) {
  Shard& shard = *pieces_[static_cast<std::size_t>(task.stage)].front().shard;
  shard.backward_filters();
  if (joins_gradients(task.stage)) filter_gradients_[task.stage] = shard.gradients();
}

/// Copies the gradients of a send task's filters, of this node's samples or of all. All parcels of the task are then cut
/// from the copy.
void Node::take_gradients_to_send(const Task& sent) {
  const FilterRange tile = pieces_[static_cast<std::size_t>(sent.stage)].front().filters;
  const bool of_all = sent.cargo == Cargo::filter_sum;
  weights_to_send_.clear();
  for (const Tensor& gradient : (of_all ? filter_sums_ : filter_gradients_).at(sent.stage)) {
    if (gradient.size() == 0) continue;
    const std::span<const float> part = run_of(gradient, tile, sent.filters);
    weights_to_send_.insert(weights_to_send_.end(), part.begin(), part.end());
  }
}

/// The sums of the gradients of a stage's filters, in the form of Shard::gradients() for all filters of the node's tile.
std::vector<Tensor>& Node::sums_of_filters(int stage) {
  std::vector<Tensor>& sums = filter_sums_[stage];
  const auto s = static_cast<std::size_t>(stage);
  if (sums.empty()) sums = zero_gradients(trunk_[s], pieces_[s].front().filters.count);
  return sums;
}

/// Adds the gradients of the holders in the order of the rows, never in the order of arrival. The owner rounds the sum as it
/// travels, so that it updates by the same sum as the other holders.
void Node::sum_filters(const Task& sum) {
  const FilterRange tile = pieces_[static_cast<std::size_t>(sum.stage)].front().filters;
  std::vector<Tensor>& sums = sums_of_filters(sum.stage);
  for (Tensor& each : sums) {
    if (each.size() > 0) std::ranges::fill(run_of(each, tile, sum.filters), 0.0F);
  }
  for (const int part : sum.after) add_filters(sum, part);
  const auto sent = std::ranges::find_if(training_.tasks, [&](const Task& each) {
    return each.cargo == Cargo::filter_sum && each.node == index_ && each.stage == sum.stage;
  });
  if (sent == training_.tasks.end()) return;
  for (Tensor& each : sums) {
    if (each.size() > 0) round_to(wire_type(*sent, plan_), run_of(each, tile, sum.filters));
  }
}

void Node::add_filters(const Task& sum, int part) {
  const bool own = task(part).kind != TaskKind::send;
  const FilterRange tile = pieces_[static_cast<std::size_t>(sum.stage)].front().filters;
  const FilterRange both = common(own ? tile : task(part).filters, sum.filters);
  if (!own) decode_held(part);
  std::span<const float> received = scratch_;
  std::vector<Tensor>& sums = filter_sums_.at(sum.stage);
  for (std::size_t p = 0; p < sums.size(); ++p) {
    if (sums[p].size() == 0) continue;
    const std::span<float> to = run_of(sums[p], tile, both);
    const std::span<const float> more = own ? run_of(std::as_const(filter_gradients_.at(sum.stage)[p]), tile, both)
                                            : std::exchange(received, received.subspan(to.size())).first(to.size());
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
  }
}

/// Puts the gradients that a send task has brought into scratch_.
void Node::decode_held(int sent) {
  const NumberType wire = wire_type(task(sent), plan_);
  const NumberType type = wire == NumberType::int8 ? NumberType::fp32 : wire;
  scratch_.resize(values_of(task(sent)));
  std::span<float> to = scratch_;
  for (const Bytes& bytes : flights_.at(sent).held) {
    const std::size_t count = convoy::values_in(type, bytes.values.size());
    decode(type, bytes.values.data(), to.first(count));
    to = to.subspan(count);
  }
  flights_.erase(sent);
}

/// Takes the sum of gradients that the owner of some filters sends. A master that only passes it on has no tile.
void Node::take_filter_sum(int sent) {
  const std::vector<Piece>& pieces = pieces_[static_cast<std::size_t>(task(sent).stage)];
  decode_held(sent);
  if (pieces.empty()) return;
  const FilterRange tile = pieces.front().filters;
  const FilterRange both = common(task(sent).filters, tile);
  if (both != task(sent).filters) return;
  std::span<const float> received = scratch_;
  for (Tensor& each : sums_of_filters(task(sent).stage)) {
    if (each.size() == 0) continue;
    const std::span<float> to = run_of(each, tile, both);
    std::ranges::copy(received.first(to.size()), to.begin());
    received = received.subspan(to.size());
  }
}

/// Updates the node's tile of a stage. A shard updates all its filters: where the node does not know the sum of the
/// gradients, the owner's weights replace the values that this gives, and their moments are never read.
void Node::update(const Task& task) {
  Shard& shard = *pieces_[static_cast<std::size_t>(task.stage)].front().shard;
  if (joins_gradients(task.stage)) shard.set_gradients(filter_sums_.at(task.stage));
  shard.update(*work_.update);
}

ShardState Node::gradients(std::size_t stage, FilterRange filters) const {
  const Piece& tile = pieces_[stage].front();
  ShardState state = gradient_state(*tile.shard);
  if (joins_gradients(static_cast<int>(stage))) {
    const std::vector<Tensor>& sums = filter_sums_.at(static_cast<int>(stage));
    for (std::size_t p = 0; p < sums.size(); ++p) {
      if (sums[p].size() > 0) state.parameters[p].value = sums[p];
    }
  }
  return slice(state, {filters.first - tile.filters.first, filters.count});
}

// ---- parameters ----------------------------------------------------------------------------------------------------

/// Copies the parameters, or their gradients, of a send task. All parcels of the task are then cut from the copy.
void Node::take_weights_to_send(const Task& sent) {
  if (sent.cargo != Cargo::weights) return take_gradients_to_send(sent);
  const auto stage = static_cast<std::size_t>(sent.stage);
  const auto own_state = [&] {
    const Piece& piece = pieces_[stage].front();
    return slice(piece.shard->state(), {sent.filters.first - piece.filters.first, sent.filters.count});
  };
  const ShardState state = sends_weights() ? slice(thesis_->weights(stage), sent.filters) : own_state();
  weights_to_send_.clear();
  for (const Parameter& each : state.parameters) {
    weights_to_send_.insert(weights_to_send_.end(), each.value.span().begin(), each.value.span().end());
  }
}

/// Takes parameters that another member sends: filters that it owns or, in the thesis' exchange, the weights from the
/// master to a slave and the updated weights from a slave to the master.
void Node::take_weights(const Task& task, std::span<const float> values) {
  const auto stage = static_cast<std::size_t>(task.stage);
  if (sends_weights()) return put_weights(task.filters, values, held(stage), thesis_->weights(stage));
  // A master passes on weights that it updates itself. They may arrive after its forward pass, and would replace later ones.
  const bool passed_on =
      index_ == training_.master && joins_gradients(task.stage) && takes_sums(plan_, task.node, index_);
  if (passed_on) return;
  for (Piece& piece : pieces_[stage]) {
    if (common(task.filters, piece.filters).count == 0) continue;
    piece.fresh.push_back({task.filters, {values.begin(), values.end()}});
  }
}

/// Puts parameters that have arrived into the shard. They wait until the shard computes forward, or somebody asks for its
/// state, because they may arrive before the node's own update.
void Node::use_fresh(Piece& piece) {
  if (piece.fresh.empty()) return;
  ShardState state = piece.shard->state();
  for (const FreshWeights& each : std::exchange(piece.fresh, {})) {
    put_weights(each.filters, each.values, piece.filters, state);
  }
  piece.shard->set_state(state);
}

}  // namespace convoy
