#include "master/cluster/state_transfer.hpp"

#include <algorithm>
#include <utility>

namespace convoy {
namespace {

bool has_moments(const ShardState& state) {
  return std::ranges::any_of(state.parameters, [](const Parameter& each) { return !each.moments.empty(); });
}

}  // namespace

StateTransfer::StateTransfer(Crew& crew, const std::vector<Stage>& trunk)
    : crew_(crew), trunk_(trunk), coming_(crew.slaves().size()), offers_(crew.slaves().size()) {}

std::shared_ptr<ComingState> StateTransfer::ask(std::size_t slave, const wire::Snapshot& request) {
  Stage stage = trunk_[request.stage_index];
  if (request.gradients || !request.moments) stage.moments = 0;
  auto state = std::make_shared<ComingState>();
  state->of = {request.stage_index, request.filters, zero_state(stage, request.filters.count)};
  if (!has_parameters(stage)) return state;  // nothing to send
  state->reader.emplace(wire::values_of(state->of.state, stage, request.type));
  crew_.send(slave, {request, {}});
  coming_[slave].push_back(state);
  return state;
}

bool StateTransfer::awaits_any() const {
  return std::ranges::any_of(coming_, [](const auto& states) { return !states.empty(); });
}

bool StateTransfer::take(std::size_t slave, const wire::Piece& piece, const wire::Payload& payload) {
  ComingState& first = *coming_[slave].front();
  first.reader->add(piece, payload);
  if (!first.complete()) return false;
  coming_[slave].pop_front();
  return true;
}

void StateTransfer::give(std::size_t slave, FilterState state, NumberType type) {
  offers_[slave].push_back({std::move(state), type});
  if (offers_[slave].size() == 1) offer(slave);
}

void StateTransfer::offer(std::size_t slave) {
  const auto& [state, type] = offers_[slave].front();
  crew_.send(slave, {wire::Load{static_cast<std::uint32_t>(state.stage), state.filters,
                                wire::contents_of(state.state, state.filters), type, has_moments(state.state)},
                     {}});
}

std::size_t StateTransfer::take_wanted(std::size_t slave, const wire::Wanted& wanted) {
  if (offers_[slave].empty() || wanted.stage_index != offers_[slave].front().state.stage)
    fail("an unrequested Wanted came");
  const auto [offered, type] = std::move(offers_[slave].front());
  offers_[slave].pop_front();
  const std::vector<FilterRange> blocks = wire::state_blocks(offered.filters);
  std::vector<ShardState> missing;
  for (const std::uint32_t block : wanted.blocks) {
    if (block >= blocks.size()) fail("a Wanted names block {}; the offer has blocks 0 to {}", block, blocks.size() - 1);
    missing.push_back(wire::block_of(offered.state, offered.filters, blocks[block]));
  }
  std::vector<wire::Typed<const float>> values;
  for (const ShardState& each : missing) {
    const auto more = wire::values_of(each, trunk_[offered.stage], type);
    values.insert(values.end(), more.begin(), more.end());
  }
  std::size_t bytes = 0;
  wire::send_values({.step = 0, .task = wanted.stage_index, .first = 0}, values, [&](const wire::Envelope& piece) {
    crew_.send(slave, piece);
    bytes += piece.payload.size();
  });
  if (!offers_[slave].empty()) offer(slave);
  return bytes;
}

}  // namespace convoy
