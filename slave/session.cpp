#include "slave/session.hpp"

#include <algorithm>

#include "devices/registry.hpp"
#include "plan/profile.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using wire::Channel;
using wire::Clock;

constexpr auto kIdleWait = 200ms;
/// The interval of the Pings by which a slave that works or waits shows the master that it does not hang.
constexpr auto kSignInterval = 500ms;

}  // namespace

Session::Session(wire::ClientLink& link, Device& device, std::size_t memory, StateCache& cache,
                 energy::RunEnergy* energy, const std::filesystem::path& times, ImageStore* images)
    : link_(link),
      device_(device),
      memory_(memory),
      cache_(cache),
      energy_(energy),
      known_times_(known_times(device, times)),
      images_(images),
      sign_(Clock::now()) {}

std::optional<std::string> Session::serve(const std::atomic<bool>& stop, std::chrono::milliseconds patience,
                                          const std::function<void()>& leaving) {
  watch_.restart();
  std::optional<wire::Deadline> leave_at;
  while (!bye_) {
    if (stop && !leave_at) {
      leave_at = Clock::now() + patience;
      leaving();
      link_.send(Channel::control, {wire::Leaving{}, {}}, Clock::now() + kIdleWait);
    }
    if (leave_at && Clock::now() >= *leave_at) break;
    // Messages are taken before the next task begins, because other nodes may wait for their effects.
    std::optional<wire::ClientLink::From> from = next(Clock::now());
    if (!from && !work()) {
      from = next(Clock::now() + kIdleWait);
      // The time of a transfer is counted when it ends.
      if (!transferring()) count(0, 0, watch_.restart());
    }
    if (from) take(*from);
    show_life();
  }
  return bye_;
}

std::optional<wire::ClientLink::From> Session::next(wire::Deadline deadline) {
  std::optional<wire::ClientLink::From> from;
  const bool done = try_to("waiting", [&] {
    from = link_.receive(deadline);
    if (!from && transferring() && Clock::now() >= transfer_until_) {
      fail("the master stopped in the middle of a {}", loading_ ? "Load" : "Probe");
    }
  });
  if (!done) end_transfer();
  return from;
}

template <class Action>
bool Session::try_to(const std::string& what, Action action) {
  try {
    action();
    return true;
  } catch (const PeerLost&) {
    throw;
  } catch (const wire::LinkBroken& broken) {
    give_up(broken.peer());
  } catch (const DeviceLost& error) {
    send(wire::Failed{error.what()});
    throw;
  } catch (const std::bad_alloc&) {
    send(wire::Failed{
        fmt::format("out of memory during {}; give this slave a smaller --memory, or take a smaller batch", what)});
  } catch (const Error& error) {
    send(wire::Failed{error.what()});
  }
  return false;
}

/// The master decides whether that slave is alive, and sends a new plan.
void Session::give_up(const std::string& peer) {
  if (!given_up_) send(wire::Unreached{{peer}});
  given_up_ = true;
  in_step_ = false;
  end_transfer();
}

void Session::take(const wire::ClientLink::From& from) {
  const wire::Message& message = from.envelope.message;
  const auto* bye = std::get_if<wire::Bye>(&message);
  if (bye != nullptr && from.channel != Channel::peer) {
    bye_ = bye->reason;
    return;
  }
  if (given_up_ && !std::holds_alternative<wire::Assign>(message)) return;
  const bool done = try_to(wire::name_of(message), [&] {
    if (from.channel == Channel::peer) {
      take_from_peer(from);
    } else {
      take_from_master(from.envelope);
    }
  });
  if (!done) end_transfer();
  finish_step();
}

void Session::take_from_peer(const wire::ClientLink::From& from) {
  if (from.node < 0 || static_cast<std::size_t>(from.node) >= members_.size() || from.node == index_) return;
  try {
    if (!from.rejected.empty()) throw Error(from.rejected);
    const auto* piece = std::get_if<wire::Piece>(&from.envelope.message);
    if (piece == nullptr) fail("{} came where a Piece was due", wire::name_of(from.envelope.message));
    receive(from.node, *piece, from.envelope.payload);
  } catch (const PeerLost&) {
    throw;
  } catch (const wire::LinkBroken&) {
    throw;
  } catch (const Error& error) {
    // The master cannot know which of the two slaves is at fault. When maps go through the master itself, it can.
    give_up(fmt::format("{} (which broke the protocol: {})", members_[from.node], error.what()));
  }
}

void Session::take_from_master(const wire::Envelope& envelope) {
  const wire::Message& message = envelope.message;
  const auto* piece = std::get_if<wire::Piece>(&message);
  if (transferring()) {
    transfer_until_ = Clock::now() + kTransferPatience;
    if (piece != nullptr) return take_transferred(*piece, envelope);
    if (!std::holds_alternative<wire::Assign>(message) && !std::holds_alternative<wire::Ping>(message)) {
      throw PeerLost("master", fmt::format("the master broke the protocol: {} came where a Piece was due",
                                           wire::name_of(message)));
    }
  }
  if (piece != nullptr && take_original(*piece, envelope.payload)) return;
  if (piece != nullptr) return receive(node().graph().master, *piece, envelope.payload);
  std::visit([this](const auto& each) { on(each); }, message);
}

bool Session::work() {
  if (transferring()) return false;
  // Only one Piece is sent between two tasks, because other nodes wait for the tasks' results.
  const bool sent = send_state();
  if (!node_ || !in_step_) return sent;
  count(0, watch_.restart(), 0);
  bool worked = false;
  const bool done = try_to("a step", [&] {
    worked = node_->work();
    answer_snapshots();
  });
  if (!done) in_step_ = false;
  send_squares();
  const std::vector<double> stages = node_->take_seconds();
  times_.stages.resize(stages.size(), 0.0);
  double computed = 0.0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    computed += stages[s];
    times_.stages[s] += stages[s];
  }
  count(computed, std::max(0.0, watch_.restart() - computed), 0);
  finish_step();
  return worked || sent;
}

template <class T>
void Session::on(const T& message) {
  fail("a master does not send {}; run the same release of Convoy on both machines", wire::name_of(message));
}

Node& Session::node() {
  if (!node_) fail("this slave has no plan yet");
  return *node_;
}

std::size_t Session::bytes_of(const ShardSpec& spec) const {
  const std::size_t counted =
      shard_bytes(spec.stage, spec.filters.count, spec.batch, spec.input_gradient, device_.info().filter_block);
  return static_cast<std::size_t>(device_.info().memory_factor * static_cast<double>(counted));
}

void Session::on(const wire::Calibrate& task) {
  const ShardSpec spec{.stage = task.stage,
                       .filters = {0, static_cast<int>(task.filters)},
                       .batch = static_cast<int>(task.batch),
                       .input_gradient = task.input_gradient};
  const std::size_t bytes = bytes_of(spec);
  if (memory_ != 0 && bytes > memory_) {
    fail("timing {} filters of stage {} needs {}, but {} are allowed; raise --memory or take a smaller --batch",
         spec.filters.count, spec.stage.name, memory_text(bytes), memory_text(memory_));
  }
  const Timing timing = time_shard(known_times_, device_, spec, static_cast<int>(task.repeats));
  send(wire::Calibrated{timing.forward, timing.backward_input, timing.backward_filters, timing.update});
  watch_.restart();
}

void Session::on(const wire::Probe& probe) {
  if (!host_) host_ = time_host(device_.info());
  probing_.emplace(Probing{.pieces = probe.pieces, .seconds_before = process_seconds(), .received = {}});
  await_transfer();
  finish_probe();
}

void Session::finish_probe() {
  if (!probing_ || probing_->received.size() < probing_->pieces) return;
  const Probing probe = std::move(*probing_);
  probing_.reset();
  double bytes = 1.0;
  for (const wire::Envelope& piece : probe.received) bytes += static_cast<double>(piece.payload.size());
  const double seconds = probe.received.empty() ? 0.0 : process_seconds() - probe.seconds_before;
  send(wire::Probed{host_speed(*host_, seconds, bytes)});
  watch_.restart();
  for (const wire::Envelope& piece : probe.received) {
    link_.send(Channel::data, piece, Clock::now() + kTransferPatience);
  }
}

// ---- transfers from the master -------------------------------------------------------------------------------------

void Session::await_transfer() { transfer_until_ = Clock::now() + kTransferPatience; }

void Session::end_transfer() {
  probing_.reset();
  loading_.reset();
}

void Session::take_transferred(const wire::Piece& piece, const wire::Envelope& envelope) {
  if (probing_) {
    probing_->received.push_back(envelope);
    return finish_probe();
  }
  loading_->add(piece, envelope.payload);
  finish_load();
}

// ---- a step --------------------------------------------------------------------------------------------------------

/// Slaves of a master that updates the weights itself keep no moments.
void Session::expect_moments_for(const UpdateStep& step) {
  for (const Stage& stage : node().trunk()) {
    if (has_parameters(stage) && stage.moments < moments_of(step.optimizer)) {
      fail("an update needs {} moments for each parameter, and stage {} has {}", moments_of(step.optimizer), stage.name,
           stage.moments);
    }
  }
}

void Session::expect_scales_for_images(const StepWork& work) {
  const auto channels = static_cast<std::size_t>(node().trunk().front().channels);
  if (work.pass && work.scales.size() != channels) {
    fail("the images have {} channels, but the Step has the mean and deviation of {}", channels, work.scales.size());
  }
}

void Session::on(const wire::Step& step) {
  const std::uint64_t due = step_ + (next_ ? 2 : 1);
  if (step.number != due) fail("step {} came where step {} was due", step.number, due);
  if (next_) fail("step {} came while step {} waits", step.number, step_ + 1);
  if (!asked_.empty()) fail("step {} came before the gradients of step {} were sent", step.number, step_);
  if (step.work.update && !gradients_) fail("an update came before the gradients that it needs");
  if (step.work.update) expect_moments_for(*step.work.update);
  expect_scales_for_images(step.work);
  gradients_ = step.work.trains();
  if (in_step_) {
    next_ = step;
  } else {
    begin(step);
  }
}

/// Counts the seconds since the last call.
void Session::count(double compute, double transfer, double wait) {
  times_.compute += compute;
  times_.transfer += transfer;
  times_.wait += wait;
  if (energy_ != nullptr) energy_->count(compute, transfer, wait);
}

void Session::begin(const wire::Step& step) {
  if (energy_ != nullptr) energy_->begin();
  step_ = step.number;
  in_step_ = true;
  stepped_ = true;
  squares_sent_ = !step.work.trains() || !step.work.pass->squares;
  node().begin(step.work, nullptr);
  early_.give(
      [this](int from, const wire::Piece& piece, const wire::Payload& payload) { receive(from, piece, payload); });
}

/// Sends Squares, if the step asks for them, as soon as all gradients are known. The next update depends on them.
void Session::send_squares() {
  if (!in_step_ || squares_sent_ || !node_ || !node_->gradients_ready()) return;
  squares_sent_ = true;
  send(wire::Squares{node_->gradient_squares()});
}

void Session::on(const wire::Credit& credit) {
  for (std::uint32_t i = 0; i < credit.pieces; ++i) node().grant();
}

void Session::receive(int from, const wire::Piece& piece, const wire::Payload& payload) {
  if (piece.step == step_ + 1 && (next_ || from != node().graph().master)) {
    return early_.add(from, piece, payload, node().bytes_due());
  }
  if (piece.step == 0 && from != node().graph().master) {
    const std::optional<FilterState> state = moving_.take(from, piece, payload);
    if (state) node().set_state(state->stage, state->filters, state->state);
    return finish_move();
  }
  if (!in_step_ || piece.step != step_) fail("a Piece of step {} came in step {}", piece.step, step_);
  const auto owner = std::make_shared<wire::Payload>(payload);
  node().receive(from, static_cast<int>(piece.task), piece.first, {owner, std::as_const(*owner).bytes()});
}

void Session::carry(Parcel&& parcel) {
  const wire::Envelope envelope{
      wire::Piece{.step = step_, .task = static_cast<std::uint32_t>(parcel.task), .first = parcel.first},
      wire::Payload(parcel.bytes.owner, parcel.bytes.values)};
  if (parcel.to == node_->graph().master) {
    link_.send(Channel::data, envelope, Clock::now() + kTransferPatience);
  } else {
    link_.send_to_peer(parcel.to, lane_of(node_->task(parcel.task), node_->graph()), envelope);
  }
}

void Session::finish_step() {
  while (in_step_ && node_ && node_->finished()) {
    send_squares();
    in_step_ = false;
    try_to("a Snapshot", [&] { answer_snapshots(); });
    finish();
    if (const auto next = std::exchange(next_, std::nullopt)) try_to("a step", [&] { begin(*next); });
  }
}

void Session::finish() {
  count(0, watch_.restart(), 0);
  if (energy_ != nullptr) times_.energy = energy_->report();
  if (node_) times_.broken = node_->broken_stages();
  send(times_);
  times_ = {};
}

void Session::show_life() {
  if (Clock::now() < sign_) return;
  wire::Ping ping{.left = 0, .waiting = move_owed_};
  if (node_ && in_step_) ping = {.left = static_cast<std::uint32_t>(node_->left()), .waiting = node_->waits()};
  send(ping);
}

void Session::send(const wire::Message& message) {
  link_.send(Channel::data, {message, {}}, Clock::now() + kTransferPatience);
  sign_ = Clock::now() + kSignInterval;
}

}  // namespace convoy
