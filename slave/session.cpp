#include "slave/session.hpp"

#include <algorithm>

#include "devices/calibrate.hpp"
#include "plan/plan.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using wire::Channel;
using wire::Clock;

constexpr auto kTick = 200ms;
/// How long the master may leave a started transfer without progress. It computes a share itself and serves others
/// meanwhile; whether it lives at all is the control connection's matter.
constexpr auto kTransferPatience = 10min;

constexpr std::uint32_t kMostStages = 4096;

}  // namespace

Session::Session(wire::ClientLink& link, Device& device, std::size_t memory)
    : link_(link), device_(device), memory_(memory) {}

std::optional<std::string> Session::serve(const std::atomic<bool>& stop) {
  watch_.restart();
  while (!stop && !bye_) {
    const auto from = link_.receive(Clock::now() + kTick);
    if (!from) continue;
    times_.wait += watch_.restart();
    handle(from->envelope.message);
  }
  return bye_;
}

void Session::handle(const wire::Message& message) {
  if (const auto* bye = std::get_if<wire::Bye>(&message)) {
    bye_ = bye->reason;
    return;
  }
  try {
    std::visit([this](const auto& task) { on(task); }, message);
  } catch (const PeerLost&) {
    throw;
  } catch (const DeviceLost& error) {
    send(wire::Failed{error.what()});
    throw;
  } catch (const std::bad_alloc&) {
    send(wire::Failed{
        fmt::format("out of memory during {}; give it less with --memory or a smaller batch", wire::name_of(message))});
  } catch (const Error& error) {
    send(wire::Failed{error.what()});
  }
}

template <class T>
void Session::on(const T& message) {
  fail("a master does not send {}", wire::name_of(message));
}

HostShard& Session::shard(std::uint32_t stage_index) {
  const auto found = shards_.find(stage_index);
  if (found == shards_.end()) fail("there is no shard of stage {} here", stage_index);
  return *found->second;
}

std::size_t Session::bytes_of(const ShardSpec& spec) const {
  const std::size_t counted = shard_bytes(spec.stage, spec.filters.count, spec.batch, spec.input_gradient);
  return static_cast<std::size_t>(device_.info().memory_factor * static_cast<double>(counted));
}

std::size_t Session::bytes_held_besides(std::uint32_t stage_index) const {
  std::size_t bytes = 0;
  for (const auto& [index, held] : shards_) {
    const ShardSpec& spec = held->spec();
    if (index != stage_index) bytes += bytes_of(spec);
  }
  return bytes;
}

void Session::on(const wire::Calibrate& task) {
  const ShardSpec spec{.stage = task.stage,
                       .filters = {0, static_cast<int>(task.filters)},
                       .batch = static_cast<int>(task.batch),
                       .input_gradient = task.input_gradient};
  const std::size_t bytes = bytes_of(spec);
  if (memory_ != 0 && bytes > memory_) {
    fail("timing {} filters of stage {} takes {} MiB of the {} MiB allowed; raise --memory or take a smaller --batch",
         spec.filters.count, spec.stage.name, bytes >> 20, memory_ >> 20);
  }
  send(wire::Calibrated{time_shard(device_, spec, static_cast<int>(task.repeats))});
  watch_.restart();
}

void Session::on(const wire::Hold& task) {
  if (task.stage_index >= kMostStages) fail("stage index {} is beyond the limit of {}", task.stage_index, kMostStages);
  shards_.erase(task.stage_index);
  const ShardSpec spec{.stage = task.stage,
                       .filters = task.filters,
                       .batch = static_cast<int>(task.batch),
                       .input_gradient = task.input_gradient};
  const std::size_t bytes = bytes_of(spec);
  const std::size_t held = bytes_held_besides(task.stage_index);
  if (memory_ != 0 && held + bytes > memory_) {
    fail(
        "filters {} to {} of stage {} at batch {} take {} MiB, and of the {} MiB allowed {} are taken; raise --memory "
        "or take a smaller --batch",
        task.filters.first, task.filters.first + task.filters.count - 1, task.stage.name, task.batch, bytes >> 20,
        memory_ >> 20, held >> 20);
  }
  shards_[task.stage_index] = std::make_unique<HostShard>(device_, spec);
  wire_ = task.wire;
  times_.compute += watch_.restart();
  finish();
}

void Session::on(const wire::Load& task) {
  HostShard& held = shard(task.stage_index);
  ShardState state = zero_state(held.spec().stage, held.spec().filters.count);
  wire::StateAssembler assembler(state);
  receive_pieces(assembler);
  held.shard().set_state(state);
  finish();
}

void Session::on(const wire::Forward& task) {
  HostShard& held = shard(task.stage_index);
  const auto own_part = [&](wire::Assembler& assembler) {
    const auto before = task.stage_index == 0 ? shards_.end() : shards_.find(task.stage_index - 1);
    if (before == shards_.end()) return;
    const HostShard& made = *before->second;
    const FilterRange range = made.spec().filters;
    assembler.add({.part = 0,
                   .sample = 0,
                   .samples = static_cast<std::uint32_t>(made.spec().batch),
                   .channel = static_cast<std::uint32_t>(range.first),
                   .channels = static_cast<std::uint32_t>(range.count)},
                  made.output().span());
  };
  const std::span<const float> input = receive_tensor(held.input_shape(), own_part);
  times_.transfer += watch_.restart();
  const Tensor& maps = held.forward(input, task.pass);
  times_.compute += watch_.restart();
  send_tensor(wire::make_pieces(maps, wire_));
  finish();
}

void Session::on(const wire::Backward& task) {
  HostShard& held = shard(task.stage_index);
  const std::span<const float> gradient = receive_tensor(held.output_shape());
  times_.transfer += watch_.restart();
  const Tensor* input_gradient = held.backward(gradient);
  times_.compute += watch_.restart();
  if (input_gradient != nullptr) send_tensor(wire::make_pieces(*input_gradient, wire_));
  finish();
}

void Session::on(const wire::Update& task) {
  for (auto& [index, held] : shards_) held->shard().update(task.step);
  times_.compute += watch_.restart();
  finish();
}

void Session::on(const wire::Snapshot& task) {
  send_tensor(wire::make_state_pieces(shard(task.stage_index).shard().state()));
  finish();
}

// ---- moving tensors ------------------------------------------------------------------------------------------------

std::span<const float> Session::receive_tensor(const Shape& shape, const std::function<void(wire::Assembler&)>& have) {
  if (staging_.size() < shape.size()) staging_.resize(shape.size());
  const std::span<float> values(staging_.data(), shape.size());
  wire::Assembler assembler(shape, values, wire_);
  if (have) have(assembler);
  receive_pieces(assembler);
  return values;
}

template <class Assembler>
void Session::receive_pieces(Assembler& assembler) {
  while (!assembler.complete()) {
    const auto from = link_.receive(Clock::now() + kTransferPatience);
    if (!from) fail("the master stopped in the middle of a tensor");
    const wire::Message& message = from->envelope.message;
    if (const auto* piece = std::get_if<wire::Piece>(&message)) {
      assembler.add(*piece, from->envelope.payload);
    } else if (const auto* bye = std::get_if<wire::Bye>(&message)) {
      throw PeerLost("master", "the master ended the run: " + bye->reason);
    } else if (!std::holds_alternative<wire::Ping>(message) && !std::holds_alternative<wire::Credit>(message)) {
      throw PeerLost("master",
                     fmt::format("the master broke the protocol: {} where a Piece was due", wire::name_of(message)));
    }
  }
}

void Session::send_tensor(std::vector<wire::Envelope> pieces) {
  std::uint64_t credit = wire::kInitialCredit;
  for (wire::Envelope& piece : pieces) {
    while (credit == 0) {
      const auto from = link_.receive(Clock::now() + kTransferPatience);
      if (!from) fail("the master stopped taking a tensor");
      const wire::Message& message = from->envelope.message;
      if (const auto* more = std::get_if<wire::Credit>(&message)) {
        credit += more->frames;
      } else if (const auto* bye = std::get_if<wire::Bye>(&message)) {
        throw PeerLost("master", "the master ended the run: " + bye->reason);
      } else if (!std::holds_alternative<wire::Ping>(message)) {
        throw PeerLost("master",
                       fmt::format("the master broke the protocol: {} where Credit was due", wire::name_of(message)));
      }
    }
    link_.send(Channel::data, piece, Clock::now() + kTransferPatience);
    piece.payload = {};
    --credit;
  }
}

void Session::finish() {
  times_.transfer += watch_.restart();
  send(times_);
  times_ = {};
}

void Session::send(const wire::Message& message) {
  link_.send(Channel::data, {message, {}}, Clock::now() + kTransferPatience);
}

}  // namespace convoy
