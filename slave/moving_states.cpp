#include "slave/moving_states.hpp"

#include <algorithm>

namespace convoy {
namespace {

/// Copies the state of a move's filters out of the states of the former shards.
FilterState held(const wire::StateMove& move, const std::vector<FilterState>& kept) {
  const auto shard = std::ranges::find_if(kept, [&](const FilterState& each) {
    return each.stage == move.stage_index && common(each.filters, move.filters) == move.filters;
  });
  if (shard == kept.end()) {
    fail("not all of filters {} to {} of stage {}, which node {} takes over, are in a shard of this slave",
         move.filters.first, move.filters.first + move.filters.count - 1, move.stage_index, move.to);
  }
  const FilterRange within{move.filters.first - shard->filters.first, move.filters.count};
  return {move.stage_index, move.filters, slice(shard->state, within)};
}

}  // namespace

MovingStates::MovingStates(const std::vector<wire::StateMove>& moves, int self, const std::vector<Stage>& trunk,
                           const std::vector<FilterState>& kept) {
  for (const wire::StateMove& move : moves) {
    const Stage& stage = trunk.at(move.stage_index);
    if (move.from == self) leaving_.push_back({move.to, held(move, kept)});
    if (move.to != self) continue;
    Coming coming{{move.stage_index, move.filters, zero_state(stage, move.filters.count)},
                  wire::ValueReader(std::vector<wire::Typed<float>>())};
    coming.reader = wire::ValueReader(wire::values_of(coming.state.state));
    coming_[move.from].push_back(std::move(coming));
  }
}

void MovingStates::send(wire::ClientLink& link) {
  for (const Leaving& each : std::exchange(leaving_, {})) {
    const wire::Piece begin{.step = 0, .task = static_cast<std::uint32_t>(each.state.stage), .first = 0};
    wire::send_values(begin, wire::values_of(each.state.state),
                      [&](const wire::Envelope& piece) { link.send_to_peer(each.to, Lane::prompt, piece); });
  }
}

std::optional<FilterState> MovingStates::take(int from, const wire::Piece& piece, const wire::Payload& payload) {
  const auto found = coming_.find(from);
  if (found == coming_.end()) fail("a Piece has values of a state that does not move");
  Coming& first = found->second.front();
  if (piece.task != first.state.stage)
    fail("a Piece of stage {} came where stage {} was due", piece.task, first.state.stage);
  first.reader.add(piece, payload);
  if (!first.reader.complete()) return std::nullopt;
  FilterState state = std::move(first.state);
  found->second.pop_front();
  if (found->second.empty()) coming_.erase(found);
  return state;
}

}  // namespace convoy
