#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "exchange/shard_pieces.hpp"
#include "exchange/weight_sums.hpp"

namespace convoy {

NodeShards::NodeShards(const NodePlan& plan, HostMaps& host, bool sends_weights, Device* device)
    : plan_(plan),
      host_(host),
      device_(device),
      pieces_(plan.trunk.size()),
      input_of_(plan.trunk.size()),
      made_(plan.trunk.size()),
      gradient_by_(plan.trunk.size()) {
  for (std::size_t s = 0; s < plan.trunk.size(); ++s) {
    const FilterRange own = plan.tile(static_cast<int>(s)).filters;
    const FilterRange held = plan.held[s].channels;
    if (own.count > 0) compile(s, own);
    if (held.count == own.count || sends_weights) continue;
    const int begin = own.count > 0 ? own.first : held.first;
    const int behind = begin + own.count;
    if (begin > held.first) compile(s, {held.first, begin - held.first});
    if (behind < held.first + held.count) compile(s, {behind, held.first + held.count - behind});
  }
}

NodeShards::~NodeShards() = default;

void NodeShards::compile(std::size_t s, FilterRange filters) {
  invariant(device_ != nullptr, "a node with shards has a device");
  const Stage stage = plan_.thesis ? ThesisNode::compiled(plan_.trunk[s]) : plan_.trunk[s];
  const std::vector<Sources> reads = reads_of(plan_.trunk, s);
  const Sources& from = reads[0];
  const bool backward =
      plan_.needed[s] && (plan_.everywhere(static_cast<int>(s)) || filters == plan_.tile(static_cast<int>(s)).filters);
  const SampleRange samples = plan_.held[s].samples;
  const int batch = samples.count * plan_.plan.micro_batches;
  const bool slopes = std::ranges::any_of(
      from, [this](const Source& source) { return source.stage >= 0 && plan_.needed[source.stage]; });
  Piece piece{
      .stage = static_cast<int>(s),
      .filters = filters,
      .reads = reads_for(plan_.trunk, s, filters),
      .shard = device_->compile({.stage = stage,
                                 .filters = filters,
                                 .batch = batch,
                                 .input_gradient = backward && slopes,
                                 .keep_input_gradient = plan_.residence.keeps_input_gradient(static_cast<int>(s)),
                                 .micro_batches = plan_.plan.micro_batches,
                                 .first_sample = samples.first,
                                 .whole_micro_batch = micro_batch_size(plan_.plan)}),
      .backward = backward,
      .added = {},
      .gradient = nullptr,
      .fresh = {}};
  const std::size_t adds = added_shapes(stage, batch, filters.count).size();
  // The input of a shard that is the maps of another one, as they stand, has no tensor of its own.
  const auto joined = [&](std::size_t number, auto make) -> std::unique_ptr<DeviceTensor> {
    const Sources& sources = reads[number];
    if (!plan_.residence.inputs[s][number]) return make();
    const Source& first = sources.front();
    if (sources.size() == 1 && first.channels == plan_.held[first.stage].channels) return nullptr;
    std::unique_ptr<DeviceTensor> maps = make();
    maps->write(Tensor(maps->shape(), 0.0F).span());  // channels that have no source stay zero
    return maps;
  };
  for (std::size_t i = 0; i < adds; ++i) {
    piece.added.push_back(joined(i + 1, [&] { return piece.shard->make_added(i); }));
    if (piece.added.back() != nullptr) piece.shard->connect(i, *piece.added.back());
  }
  if (backward && plan_.residence.sole_reader[s] < 0) piece.gradient = piece.shard->make_output_gradient();
  auto input =
      std::ranges::find_if(inputs_, [&](const Input& other) { return other.from == from && other.samples == samples; });
  if (input == inputs_.end()) {
    inputs_.push_back({.from = from,
                       .samples = samples,
                       .maps = joined(0, [&] { return piece.shard->make_input(); }),
                       .written = {}});
    input = inputs_.end() - 1;
  }
  input_of_[s] = static_cast<std::size_t>(input - inputs_.begin());
  pieces_[s].push_back(std::move(piece));
}

void NodeShards::begin_step() {
  for (Input& input : inputs_) input.written.assign(static_cast<std::size_t>(plan_.plan.micro_batches), false);
}

// ---- weights -------------------------------------------------------------------------------------------------------

Shard* NodeShards::tile(int stage) const {
  const std::vector<Piece>& pieces = pieces_[stage];
  return pieces.empty() ? nullptr : pieces.front().shard.get();
}

bool NodeShards::goes_backward(int stage) const {
  const std::vector<Piece>& pieces = pieces_[stage];
  return !pieces.empty() && pieces.front().backward;
}

ShardState NodeShards::state(int stage, FilterRange filters) const {
  const Piece& tile = pieces_[stage].front();
  return slice(tile.shard->state(), {filters.first - tile.filters.first, filters.count});
}

void NodeShards::set_state(int stage, FilterRange filters, const ShardState& state) {
  for (Piece& piece : pieces(stage)) {
    const FilterRange here = common(piece.filters, filters);
    if (here.count == 0) continue;
    use_fresh(piece);
    ShardState whole = piece.shard->state();
    paste(slice(state, {here.first - filters.first, here.count}), {here.first - piece.filters.first, here.count},
          whole);
    piece.shard->set_state(whole);
  }
}

void NodeShards::take_weights(int stage, FilterRange filters, std::span<const float> values) {
  for (Piece& piece : pieces(stage)) {
    if (common(filters, piece.filters).count == 0) continue;
    piece.fresh.push_back({filters, {values.begin(), values.end()}});
  }
}

/// Puts parameters that have arrived into the shard.
void NodeShards::use_fresh(Piece& piece) {
  if (piece.fresh.empty()) return;
  ShardState state = piece.shard->state();
  for (const FreshWeights& each : std::exchange(piece.fresh, {})) {
    put_weights(each.filters, each.values, piece.filters, state);
  }
  piece.shard->set_state(state);
}

}  // namespace convoy
