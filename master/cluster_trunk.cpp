#include "master/cluster_trunk.hpp"

#include <algorithm>
#include <utility>

#include "core/stopwatch.hpp"
#include "master/ordered_sum.hpp"

namespace convoy {

using wire::Envelope;
using wire::Piece;

ClusterTrunk::ClusterTrunk(std::vector<Stage> stages, Plan plan, Roster& roster, Device* own,
                           std::chrono::milliseconds patience)
    : stages_(std::move(stages)),
      plan_(std::move(plan)),
      roster_(roster),
      patience_(patience),
      runs_(stages_.size()),
      owed_(roster.slaves().size(), 0),
      credit_(roster.slaves().size(), 0) {
  validate(plan_, stages_);
  invariant(!stages_.empty(), "a cluster needs stages to share");
  invariant(plan_.members.size() == slave_count() + (own != nullptr ? 1 : 0), "the plan's members are those at hand");
  for (const SlaveInfo& slave : roster_.slaves()) {
    if (plan_.wire != NumberType::fp32 && !slave.sixteen_bits) {
      fail("slave {} cannot send and receive {}; run this release of Convoy on it, or leave out --wire", slave.name,
           to_string(plan_.wire));
    }
  }
  for (const std::string& member : plan_.members) times_.push_back({.member = member});
  hold_shards(own);
  ready_ = true;
}

void ClusterTrunk::hold_shards(Device* own) {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    bool own_next = false;
    if (s + 1 < stages_.size()) {
      for (const Assignment& shard : plan_.stages[s + 1].shards) own_next = own_next || is_own(shard.member);
    }
    if (own_next || s + 1 == stages_.size()) {
      runs_[s].output = Tensor(output_shape(stages_[s], batch(), stages_[s].conv.filters));
    }
    if (s > 0) runs_[s].input_gradient = Tensor(input_shape(stages_[s], batch()));
    for (const Assignment& shard : plan_.stages[s].shards) {
      if (is_own(shard.member)) continue;
      send(shard.member, wire::Hold{.stage_index = static_cast<std::uint32_t>(s),
                                    .stage = stages_[s],
                                    .filters = shard.filters,
                                    .batch = static_cast<std::uint32_t>(batch()),
                                    .input_gradient = s > 0,
                                    .wire = plan_.wire});
      expect(shard.member);
    }
  }
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (const Assignment& shard : plan_.stages[s].shards) {
      if (!is_own(shard.member)) continue;
      runs_[s].own = std::make_unique<HostShard>(
          *own, ShardSpec{.stage = stages_[s], .filters = shard.filters, .batch = batch(), .input_gradient = s > 0});
    }
  }
  collect([this](std::size_t slave, const Piece&, const wire::Payload&) { broke_protocol(slave, "an unasked Piece"); });
}

// ---- messages ------------------------------------------------------------------------------------------------------

void ClusterTrunk::send(int member, const wire::Message& message) {
  roster_.send(static_cast<std::size_t>(member), {message, {}});
}

void ClusterTrunk::send(int member, const std::vector<Envelope>& pieces) {
  for (const Envelope& piece : pieces) roster_.send(static_cast<std::size_t>(member), piece);
}

void ClusterTrunk::expect(int member) {
  ++owed_[static_cast<std::size_t>(member)];
  credit_[static_cast<std::size_t>(member)] = wire::kInitialCredit;
}

void ClusterTrunk::grant(std::size_t slave) {
  ++credit_[slave];
  roster_.send(slave, {wire::Credit{1}, {}});
}

std::vector<std::size_t> ClusterTrunk::awaited() const {
  std::vector<std::size_t> slaves;
  for (std::size_t i = 0; i < owed_.size(); ++i) {
    // Without credit a slave waits for us, not we for it.
    if (owed_[i] > 0 && credit_[i] > 0) slaves.push_back(i);
  }
  return slaves;
}

void ClusterTrunk::broke_protocol(std::size_t slave, const std::string& what) const {
  const std::string& name = roster_.slaves()[slave].name;
  throw PeerLost(name, fmt::format("slave {} broke the protocol: {}", name, what));
}

void ClusterTrunk::collect(const PieceHandler& on_piece, const DoneHandler& on_done) {
  while (std::any_of(owed_.begin(), owed_.end(), [](int owed) { return owed > 0; })) {
    const auto [slave, envelope] = roster_.receive(awaited(), patience_);
    if (owed_[slave] == 0) broke_protocol(slave, "an unasked " + wire::name_of(envelope.message));
    if (const auto* piece = std::get_if<Piece>(&envelope.message)) {
      if (--credit_[slave] < 0) broke_protocol(slave, "a Piece beyond its credit");
      on_piece(slave, *piece, envelope.payload);
    } else if (const auto* done = std::get_if<wire::Done>(&envelope.message)) {
      --owed_[slave];
      if (on_done) on_done(slave);
      times_[slave].compute += done->compute;
      times_[slave].transfer += done->transfer;
      times_[slave].wait += done->wait;
    } else if (const auto* failed = std::get_if<wire::Failed>(&envelope.message)) {
      const std::string& name = roster_.slaves()[slave].name;
      const std::string why = fmt::format("slave {} failed: {}", name, failed->reason);
      // One that cannot hold its shard is a mistake in the setup; one that fails later is lost, and others may go on.
      if (!ready_) throw Error(why);
      throw PeerLost(name, why);
    } else {
      broke_protocol(slave, wire::name_of(envelope.message) + " where Piece or Done was due");
    }
  }
}

// ---- forward -------------------------------------------------------------------------------------------------------

const Tensor& ClusterTrunk::forward(const Tensor& images, const Pass& pass) {
  std::vector<InputPiece> pieces;
  for (Envelope& piece : wire::make_pieces(images, plan_.wire)) pieces.push_back({-1, std::move(piece)});
  const Tensor* host_input = &images;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    pieces = forward_stage(s, pieces, *host_input, pass);
    host_input = &runs_[s].output;
  }
  return runs_.back().output;
}

std::vector<ClusterTrunk::InputPiece> ClusterTrunk::forward_stage(std::size_t s, const std::vector<InputPiece>& input,
                                                                  const Tensor& host_input, const Pass& pass) {
  std::vector<FilterRange> ranges(plan_.members.size());
  std::vector<InputPiece> output;
  const Shape shape = output_shape(stages_[s], batch(), stages_[s].conv.filters);
  wire::Assembler whole(shape, runs_[s].output.span(), plan_.wire);
  for (const Assignment& shard : plan_.stages[s].shards) {
    ranges[static_cast<std::size_t>(shard.member)] = shard.filters;
    if (is_own(shard.member)) continue;
    send(shard.member, wire::Forward{static_cast<std::uint32_t>(s), pass});
    for (const InputPiece& piece : input) {
      // A slave keeps what it computed itself.
      if (piece.origin != shard.member) roster_.send(static_cast<std::size_t>(shard.member), piece.envelope);
    }
    expect(shard.member);
  }
  const auto take = [&](int member, Envelope envelope) {
    auto& piece = std::get<Piece>(envelope.message);
    const FilterRange range = ranges[static_cast<std::size_t>(member)];
    if (std::uint64_t{piece.channel} + piece.channels > static_cast<std::uint64_t>(range.count)) {
      fail("a Piece outside its filters");
    }
    piece.channel += static_cast<std::uint32_t>(range.first);
    whole.add(piece, envelope.payload);
    output.push_back({member, std::move(envelope)});
  };
  if (runs_[s].own) {
    const Stopwatch watch;
    const Tensor& maps = runs_[s].own->forward(host_input.span(), pass);
    times_.back().compute += watch.seconds();
    for (Envelope& piece : wire::make_pieces(maps, plan_.wire)) take(static_cast<int>(slave_count()), std::move(piece));
  }
  const auto take_from_slave = [&](std::size_t slave, const Piece& piece, const wire::Payload& payload) {
    try {
      take(static_cast<int>(slave), {piece, payload});
    } catch (const Error& error) {
      broke_protocol(slave, error.what());
    }
    grant(slave);
  };
  collect(take_from_slave, [&](std::size_t slave) {
    if (!whole.complete(ranges[slave])) broke_protocol(slave, "Done before the end of its maps");
  });
  invariant(whole.complete(), "the shards cover the stage");
  return output;
}

// ---- backward ------------------------------------------------------------------------------------------------------

void ClusterTrunk::backward(const Tensor& gradient) {
  const Tensor* passed = &gradient;
  for (std::size_t s = stages_.size(); s-- > 0;) {
    backward_stage(s, *passed);
    passed = &runs_[s].input_gradient;
  }
}

void ClusterTrunk::backward_stage(std::size_t s, const Tensor& gradient) {
  const Tensor* own_part = nullptr;
  for (const Assignment& shard : plan_.stages[s].shards) {
    if (is_own(shard.member)) continue;
    send(shard.member, wire::Backward{static_cast<std::uint32_t>(s)});
    send(shard.member, wire::make_pieces(gradient, shard.filters, plan_.wire));
    expect(shard.member);
  }
  if (runs_[s].own) {
    const Stopwatch watch;
    own_part = runs_[s].own->backward(wire::channel_slice(gradient, runs_[s].own->spec().filters).span());
    times_.back().compute += watch.seconds();
  }
  sum_input_gradient(s, own_part);
}

void ClusterTrunk::sum_input_gradient(std::size_t s, const Tensor* own_part) {
  const std::vector<Assignment>& shards = plan_.stages[s].shards;
  const auto contributor_of = [&](std::size_t slave) {
    const auto shard = std::find_if(shards.begin(), shards.end(), [&](const Assignment& assignment) {
      return assignment.member == static_cast<int>(slave);
    });
    return static_cast<std::size_t>(shard - shards.begin());
  };
  OrderedSum sum(runs_[s].input_gradient, shards.size(), plan_.wire);
  const auto advance = [&] {
    sum.advance([&](std::size_t contributor) { grant(static_cast<std::size_t>(shards[contributor].member)); });
  };
  if (own_part != nullptr) sum.give(contributor_of(slave_count()), *own_part);
  advance();
  const auto take = [&](std::size_t slave, const Piece& piece, const wire::Payload& payload) {
    try {
      sum.add(contributor_of(slave), piece, payload);
    } catch (const Error& error) {
      broke_protocol(slave, error.what());
    }
    advance();
  };
  // At once, since the slaves behind it in the sum wait for its pieces.
  const auto finish = [&](std::size_t slave) {
    if (!sum.received(contributor_of(slave))) broke_protocol(slave, "Done before the end of its input gradient");
  };
  collect(take, finish);
  invariant(sum.complete(), "every contributor's gradient is summed");
}

// ---- update and state ----------------------------------------------------------------------------------------------

void ClusterTrunk::update(const SgdStep& step) {
  for (std::size_t slave = 0; slave < slave_count(); ++slave) {
    send(static_cast<int>(slave), wire::Update{step});
    expect(static_cast<int>(slave));
  }
  const Stopwatch watch;
  for (const StageRun& run : runs_) {
    if (run.own) run.own->shard().update(step);
  }
  if (times_.size() > slave_count()) times_.back().compute += watch.seconds();
  collect([this](std::size_t slave, const Piece&, const wire::Payload&) { broke_protocol(slave, "an unasked Piece"); });
}

std::vector<ShardState> ClusterTrunk::snapshot() {
  std::vector<ShardState> states;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    ShardState whole = zero_state(stages_[s], stages_[s].conv.filters);
    for (const Assignment& shard : plan_.stages[s].shards) {
      if (is_own(shard.member)) {
        paste(runs_[s].own->shard().state(), shard.filters, whole);
        continue;
      }
      ShardState part = zero_state(stages_[s], shard.filters.count);
      wire::StateAssembler assembler(part);
      send(shard.member, wire::Snapshot{static_cast<std::uint32_t>(s)});
      expect(shard.member);
      collect([&](std::size_t slave, const Piece& piece, const wire::Payload& payload) {
        try {
          assembler.add(piece, payload);
        } catch (const Error& error) {
          broke_protocol(slave, error.what());
        }
        grant(slave);
      });
      if (!assembler.complete()) broke_protocol(static_cast<std::size_t>(shard.member), "its snapshot is incomplete");
      paste(part, shard.filters, whole);
    }
    states.push_back(std::move(whole));
  }
  return states;
}

void ClusterTrunk::load(const std::vector<ShardState>& states) {
  invariant(states.size() == stages_.size(), "one state for each stage");
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (const Assignment& shard : plan_.stages[s].shards) {
      const ShardState part = slice(states[s], shard.filters);
      if (is_own(shard.member)) {
        runs_[s].own->shard().set_state(part);
        continue;
      }
      send(shard.member, wire::Load{static_cast<std::uint32_t>(s)});
      send(shard.member, wire::make_state_pieces(part));
      expect(shard.member);
    }
  }
  collect([this](std::size_t slave, const Piece&, const wire::Payload&) { broke_protocol(slave, "an unasked Piece"); });
}

std::vector<MemberTime> ClusterTrunk::take_times() {
  std::vector<MemberTime> times = times_;
  for (MemberTime& time : times_) time = {.member = time.member};
  return times;
}

}  // namespace convoy
