#include "master/cluster/state_transfer.hpp"

#include <algorithm>
#include <utility>

namespace convoy {

StateTransfer::StateTransfer(Crew& crew, const std::vector<Stage>& trunk)
    : crew_(crew), trunk_(trunk), coming_(crew.slaves().size()), offers_(crew.slaves().size()) {}

std::shared_ptr<ComingState> StateTransfer::ask(std::size_t slave, std::size_t stage, FilterRange filters,
                                                bool gradients) {
  auto state = std::make_shared<ComingState>();
  Stage of = trunk_[stage];
  if (gradients) of.moments = 0;
  state->of = {stage, filters, zero_state(of, filters.count)};
  if (!has_parameters(trunk_[stage])) return state;  // nothing to send
  state->reader.emplace(wire::values_of(state->of.state));
  crew_.send(slave, {wire::Snapshot{static_cast<std::uint32_t>(stage), filters, gradients}, {}});
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

void StateTransfer::give(std::size_t slave, FilterState state) {
  offers_[slave].push_back(std::move(state));
  if (offers_[slave].size() == 1) offer(slave);
}

void StateTransfer::offer(std::size_t slave) {
  const FilterState& state = offers_[slave].front();
  crew_.send(slave, {wire::Load{static_cast<std::uint32_t>(state.stage), state.filters,
                                wire::contents_of(state.state, state.filters)},
                     {}});
}

void StateTransfer::take_wanted(std::size_t slave, const wire::Wanted& wanted) {
  if (offers_[slave].empty() || wanted.stage_index != offers_[slave].front().stage) fail("an unrequested Wanted came");
  const FilterState offered = std::move(offers_[slave].front());
  offers_[slave].pop_front();
  const std::vector<FilterRange> blocks = wire::state_blocks(offered.filters);
  std::vector<ShardState> missing;
  for (const std::uint32_t block : wanted.blocks) {
    if (block >= blocks.size()) fail("a Wanted names block {}; the offer has blocks 0 to {}", block, blocks.size() - 1);
    missing.push_back(wire::block_of(offered.state, offered.filters, blocks[block]));
  }
  std::vector<std::span<const float>> values;
  for (const ShardState& each : missing) {
    const auto more = wire::values_of(each);
    values.insert(values.end(), more.begin(), more.end());
  }
  wire::send_values({.step = 0, .task = wanted.stage_index, .first = 0}, values,
                    [&](const wire::Envelope& piece) { crew_.send(slave, piece); });
  if (!offers_[slave].empty()) offer(slave);
}

}  // namespace convoy
