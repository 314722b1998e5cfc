#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "wire/endpoint.hpp"
#include "wire/gatekeeper.hpp"
#include "wire/refusals.hpp"
#include "wire/socket.hpp"
#include "wire/tcp_link.hpp"

namespace convoy::wire {
namespace {

constexpr std::size_t kLongestId = 200;
constexpr const char* kControlSuffix = "/c";
constexpr const char* kDataSuffix = "/d";

std::string routing_id(const std::string& peer, Channel channel) {
  return peer + (channel == Channel::control ? kControlSuffix : kDataSuffix);
}

/// Splits a routing id into peer and channel. Returns false if no slave of Convoy makes such an id.
bool parse(const std::string& id, std::string& peer, Channel& channel) {
  if (id.size() < 3 || id.size() > kLongestId) return false;
  const bool printable = std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  const std::string suffix = id.substr(id.size() - 2);
  if (!printable || (suffix != kControlSuffix && suffix != kDataSuffix)) return false;
  peer = id.substr(0, id.size() - 2);
  channel = suffix == kControlSuffix ? Channel::control : Channel::data;
  return true;
}

/// The IP address of the peer that sent a frame. The frame must be a message's header: the frame with the routing id
/// does not always carry the address.
std::string address_of(const zmq::message_t& message) {
  const char* address = zmq_msg_gets(message.handle(), "Peer-Address");
  return address == nullptr ? "" : plain_ip(address);
}

/// The error text for an address that cannot be bound.
std::string why_unbound(const std::string& endpoint, const Address& address, int error) {
  const std::string where = fmt::format("cannot listen at '{}': ", endpoint);
  if (error == EADDRINUSE) {
    return where + fmt::format("another program, perhaps another master, uses port {}; end it, or choose another port",
                               address.port);
  }
  if (error == EADDRNOTAVAIL || error == ENODEV) {
    return where + fmt::format("{} is not an address of this machine; give one that is, or * for all its addresses",
                               address.host);
  }
  if (error == EACCES) return where + "you are not allowed to use this port; choose one above 1023";
  return where + std::strerror(error);
}

}  // namespace

struct TcpServerLink::State {
  zmq::context_t context{1};
  std::optional<Gatekeeper> gatekeeper;
  zmq::socket_t socket{context, zmq::socket_type::router};
  Refusals refusals;
  int woken = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);  ///< readable after wake()

  explicit State(bool encrypted) : refusals(context, socket, encrypted) {
    if (woken < 0) fail("the master cannot make an event: {}; close other programs", std::strerror(errno));
  }
  ~State() { ::close(woken); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Waits for a message. Returns false at the deadline, or after wake().
  bool wait(Deadline deadline) {
    std::array<zmq::pollitem_t, 2> items{zmq::pollitem_t{socket.handle(), 0, ZMQ_POLLIN, 0},
                                         zmq::pollitem_t{nullptr, woken, ZMQ_POLLIN, 0}};
    try {
      zmq::poll(items.data(), items.size(), remaining(deadline));
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) return false;
      throw;
    }
    std::uint64_t count = 0;
    const bool told = items[1].revents != 0 && ::read(woken, &count, sizeof count) > 0;
    return !told && items[0].revents != 0;
  }
};

TcpServerLink::TcpServerLink(const std::string& endpoint, const LinkOptions& options)
    : state_(std::make_unique<State>(options.keys.has_value())) {
  configure(state_->socket, options);
  if (options.keys) {
    const auto shared_key_alone = [shared = options.keys->member.public_key](const std::string& key) -> std::string {
      return key == shared ? "" : "its key is not the key of this master's slaves";
    };
    state_->gatekeeper.emplace(state_->context, options.admission ? options.admission : Admission(shared_key_alone));
    encrypt_as_server(state_->socket, options.keys->master.secret_key);
  }
  state_->socket.set(zmq::sockopt::router_mandatory, true);
  state_->socket.set(zmq::sockopt::router_handover, true);
  const Address address = address_to_listen(endpoint);
  try {
    listen(state_->socket, address);
  } catch (const zmq::error_t& error) {
    fail("{}", why_unbound(endpoint, address, error.num()));
  }
}

TcpServerLink::~TcpServerLink() = default;

std::vector<Refusal> TcpServerLink::take_refusals() {
  std::vector<Refusal> all = state_->refusals.take();
  if (!state_->gatekeeper) return all;
  for (Refusal& each : state_->gatekeeper->take_refusals()) all.push_back(std::move(each));
  return all;
}

void TcpServerLink::wake() {
  const std::uint64_t one = 1;
  // A counter that is full is readable, too.
  [[maybe_unused]] const ssize_t written = ::write(state_->woken, &one, sizeof one);
}

std::string TcpServerLink::endpoint() const { return state_->socket.get(zmq::sockopt::last_endpoint); }

std::optional<TcpServerLink::From> TcpServerLink::receive(Deadline deadline) {
  constexpr int kMostDropped = 1000;  // so that a flood of messages to drop does not outlast the deadline
  zmq::socket_t& socket = state_->socket;
  for (int dropped = 0; dropped < kMostDropped || Clock::now() < deadline;) {
    zmq::message_t id;
    if (!socket.recv(id, zmq::recv_flags::dontwait)) {
      if (state_->wait(deadline)) continue;
      return std::nullopt;
    }
    From from;
    const bool ours = parse(id.to_string(), from.peer, from.channel);
    Frames frames = id.more() ? receive_frames(socket) : Frames{};
    if (state_->gatekeeper) {
      from.key = state_->gatekeeper->sender(frames.header);
      if (from.key.empty()) {
        ++dropped;
        continue;
      }
    }
    if (from.channel == Channel::control) from.address = address_of(frames.header);
    if (!ours) {
      from.rejected = "the peer is not a slave of Convoy";
      return from;
    }
    try {
      from.envelope = decode_frames(std::move(frames));
    } catch (const Error& error) {
      from.rejected = error.what();
    }
    return from;
  }
  return std::nullopt;
}

void TcpServerLink::send(const std::string& peer, Channel channel, const Envelope& envelope, Deadline deadline) {
  zmq::socket_t& socket = state_->socket;
  const std::string id = routing_id(peer, channel);
  while (true) {
    try {
      zmq::message_t route(id.data(), id.size());
      if (socket.send(route, zmq::send_flags::dontwait | zmq::send_flags::sndmore)) {
        send_frames(socket, envelope);
        return;
      }
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) continue;
      if (error.num() == EHOSTUNREACH) throw PeerLost(peer, "it is not connected");
      throw PeerLost(peer, fmt::format("sending failed: {}", std::strerror(error.num())));
    }
    // A ROUTER socket always polls as writable, so the loop sleeps until a full queue has drained.
    if (Clock::now() >= deadline)
      throw PeerLost(peer, "it stopped reading: its send queue stayed full until the deadline");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace convoy::wire
