#include "tests/simulation/hostile.hpp"

#include <algorithm>

#include "wire/codec.hpp"

namespace convoy::simulation {
namespace {

using wire::Channel;

/// Of the messages that it has sent, a hostile slave knows so many.
constexpr std::size_t kRemembered = 200;

}  // namespace

std::vector<Packet> Misdeeds::distort(Channel channel, const wire::Envelope& envelope) {
  remember(channel, envelope);
  if (std::holds_alternative<wire::Assigned>(envelope.message)) stalls_ = false;
  if (stalls_) return stalling(envelope);
  if (!tempted(envelope)) {
    std::vector<Packet> packets;
    packets.push_back(packet_of(envelope));
    return packets;
  }
  std::vector<Packet> packets = misbehave(channel, envelope);
  std::string names;
  for (const Packet& packet : packets) names += " " + packet.name;
  log_.line("misdeed: in place of {}:{}", wire::name_of(envelope.message), names.substr(0, 100));
  return packets;
}

/// Keeps what it may say again later, but no results that would then be false ones: sums of squares, states, and what
/// belongs to a step of an earlier plan.
void Misdeeds::remember(Channel channel, const wire::Envelope& envelope) {
  const auto is_piece = [](const auto& each) { return std::holds_alternative<wire::Piece>(each.second.message); };
  const auto* piece = std::get_if<wire::Piece>(&envelope.message);
  if (std::holds_alternative<wire::Squares>(envelope.message) || (piece != nullptr && piece->step == 0)) return;
  if (std::holds_alternative<wire::Assigned>(envelope.message)) std::erase_if(said_, is_piece);
  said_.emplace_back(channel, envelope);
  if (said_.size() > kRemembered) said_.pop_front();
}

/// Whether it is time for a misdeed: now and then, and often at the moments that are worst for others, when it answers
/// a request while all wait for it.
bool Misdeeds::tempted(const wire::Envelope& envelope) {
  const bool often = std::holds_alternative<wire::Piece>(envelope.message) ||
                     std::holds_alternative<wire::Ping>(envelope.message) ||
                     std::holds_alternative<wire::Hello>(envelope.message);
  if (!often && random_.below(16) == 0) return true;
  if (next_-- > 0) return false;
  next_ = random_.below(2) == 0 ? random_.below(10) : random_.below(2000);
  return true;
}

std::vector<Packet> Misdeeds::misbehave(Channel channel, const wire::Envelope& envelope) {
  std::vector<Packet> packets;
  const auto add = [&](const wire::Envelope& each) { packets.push_back(packet_of(each)); };
  switch (random_.below(12)) {
    case 0: packets.push_back(garbage()); break;
    case 1:  // twice
      add(envelope);
      add(envelope);
      break;
    case 2:
    case 3: add(changed(envelope)); break;
    case 4:  // besides
      add({uncalled(), {}});
      add(envelope);
      break;
    case 5:  // a little later: the answer to something else
      add(envelope);
      add({uncalled(), {}});
      break;
    case 6: add({wire::Bye{"a \x1b[2J reason"}, {}}); break;
    case 7:  // many at once
      for (auto left = random_.below(300); left > 0; --left)
        add({channel == Channel::control ? wire::Message(wire::Leaving{}) : wire::Ping{}, {}});
      add(envelope);
      break;
    case 8:  // an old message, right in another step or under another plan, takes the place of the right one
    case 9: {
      if (random_.below(2) == 0) add(envelope);
      if (said_.empty()) break;
      const auto& [way, old] = said_[random_.below(static_cast<std::uint32_t>(said_.size()))];
      if (way == channel) add(old);
      break;
    }
    case 10:
      stalls_ = true;
      packets = stalling(envelope);
      break;
    default: break;  // nothing at all
  }
  return packets;
}

/// Keeps all results to itself, and says that others keep it waiting. Only the limit of a step ends that.
std::vector<Packet> Misdeeds::stalling(const wire::Envelope& envelope) {
  const wire::Message& message = envelope.message;
  std::vector<Packet> packets;
  if (std::holds_alternative<wire::Piece>(message) || std::holds_alternative<wire::Done>(message)) return packets;
  if (std::holds_alternative<wire::Ping>(message)) {
    packets.push_back(packet_of({wire::Ping{.left = 5, .waiting = true}, {}}));
  } else {
    packets.push_back(packet_of(envelope));
  }
  return packets;
}

Packet Misdeeds::garbage() {
  std::vector<std::byte> bytes(1 + random_.below(200));
  for (std::byte& each : bytes) each = static_cast<std::byte>(random_.below(256));
  return packet_of({}, bytes);
}

wire::Envelope Misdeeds::changed(wire::Envelope envelope) {
  if (auto* piece = std::get_if<wire::Piece>(&envelope.message)) {
    switch (random_.below(6)) {
      case 0: ++piece->step; break;
      case 1: --piece->step; break;
      case 2: piece->task = random_.below(80); break;
      case 3: piece->first += 1 + random_.below(3); break;
      case 4: piece->first = ~std::uint64_t{0} - random_.below(9); break;
      default: {  // another size; the bytes that there are stay
        const std::size_t size =
            std::max<std::size_t>(1, envelope.payload.size() * random_.below(3) + random_.below(5));
        wire::Payload other(size);
        std::ranges::fill(other.bytes(), std::byte{0});
        const auto kept = std::min(size, envelope.payload.size());
        std::ranges::copy(std::as_const(envelope.payload).bytes().first(kept), other.bytes().begin());
        envelope.payload = other;
      }
    }
  } else if (auto* hello = std::get_if<wire::Hello>(&envelope.message)) {
    *hello = changed(*hello);
  } else if (auto* wanted = std::get_if<wire::Wanted>(&envelope.message)) {
    wanted->blocks.push_back(random_.below(5));
  } else if (auto* missing = std::get_if<wire::Missing>(&envelope.message)) {
    missing->samples.push_back(random_.below(5));
  } else if (auto* assigned = std::get_if<wire::Assigned>(&envelope.message); assigned != nullptr) {
    assigned->token = "another";
  } else {
    envelope = {uncalled(), {}};
  }
  return envelope;
}

wire::Hello Misdeeds::changed(wire::Hello hello) {
  switch (random_.below(8)) {
    case 0: ++hello.version; break;
    case 1: hello.device = std::string(4096, 'x'); break;
    case 2: hello.capabilities.clear(); break;
    case 3: hello.name = kMasterName; break;
    case 4: hello.name = "\x1b[2J"; break;
    case 5: hello.peer_key = "no key"; break;
    case 6: hello.peer_port = 70000; break;
    default: hello.filter_block = 0; break;
  }
  return hello;
}

/// A message that slaves send at other moments.
wire::Message Misdeeds::uncalled() {
  switch (random_.below(14)) {
    case 13: return wire::Missing{random_.below(4), random_.below(20), {random_.below(4)}};
    case 0: return wire::Done{};
    case 1: return wire::Done{.compute = 1e9, .transfer = 0.0, .wait = 0.0, .stages = {1e9, 1e9}};
    case 2: return clips_ ? wire::Message(wire::Done{}) : wire::Squares{1.0};
    case 3: return wire::Wanted{random_.below(3), {}};
    case 4: return wire::Attach{"a"};
    case 5: return wire::Calibrated{1.0, 1.0, 1.0, 1.0};
    case 6: return wire::Assign{};
    case 7: return wire::Credit{1000000};
    case 8: return wire::Failed{"a \x1b[2J reason"};
    case 9: return wire::Assigned{};
    case 10: return wire::Probed{};
    case 11: return wire::Refused{"a reason"};
    default: return wire::Unreached{{"b"}};
  }
}

}  // namespace convoy::simulation
