#include <unistd.h>

#include <random>

#include "wire/socket.hpp"

namespace convoy::wire {
namespace {

/// Names one pair of connections: no two links ever share one, so a master never mistakes a new session for an old.
std::string make_id() {
  std::random_device entropy;
  return fmt::format("{}-{:08x}{:08x}", getpid(), entropy(), entropy());
}

constexpr const char* kMonitorEndpoint = "inproc://control-monitor";

}  // namespace

struct ClientLink::State {
  zmq::context_t context{1};
  zmq::socket_t control{context, zmq::socket_type::dealer};
  zmq::socket_t data{context, zmq::socket_type::dealer};
  zmq::socket_t monitor{context, zmq::socket_type::pair};
  bool stands = false;

  void connect(zmq::socket_t& socket, const std::string& endpoint, const std::string& id) {
    socket.set(zmq::sockopt::routing_id, id);
    socket.set(zmq::sockopt::reconnect_ivl, 100);
    socket.set(zmq::sockopt::reconnect_ivl_max, 2000);
    socket.connect(endpoint);
  }

  /// Follows the control connection's life. Throws PeerLost when it broke after it stood.
  void watch() {
    zmq::message_t event;
    while (monitor.recv(event, zmq::recv_flags::dontwait)) {
      std::uint16_t number = 0;
      std::copy_n(event.data<std::uint8_t>(), sizeof number, reinterpret_cast<std::uint8_t*>(&number));
      zmq::message_t address;
      if (event.more() && !monitor.recv(address)) break;
      if (number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) stands = true;
      if (number == ZMQ_EVENT_DISCONNECTED && stands) {
        stands = false;
        throw PeerLost("master", "the connection to the master broke");
      }
    }
  }
};

ClientLink::ClientLink(const std::string& endpoint, const LinkOptions& options) : state_(std::make_unique<State>()) {
  State& state = *state_;
  for (zmq::socket_t* socket : {&state.control, &state.data}) configure(*socket, options);
  configure_heartbeat(state.control, options);
  state.data.set(zmq::sockopt::tcp_keepalive, 1);
  zmq_socket_monitor(state.control.handle(), kMonitorEndpoint, ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED);
  state.monitor.set(zmq::sockopt::linger, 0);
  state.monitor.connect(kMonitorEndpoint);
  const std::string id = make_id();
  try {
    state.connect(state.control, endpoint, id + "/c");
    state.connect(state.data, endpoint, id + "/d");
  } catch (const zmq::error_t& error) {
    fail("cannot connect to '{}': {}; expected for example tcp://192.168.0.10:5570", endpoint, error.what());
  }
}

ClientLink::~ClientLink() {
  // The monitor's end must go before the socket that feeds it.
  zmq_socket_monitor(state_->control.handle(), nullptr, 0);
}

std::optional<ClientLink::From> ClientLink::receive(Deadline deadline) {
  State& state = *state_;
  while (true) {
    state.watch();
    for (const Channel channel : {Channel::control, Channel::data}) {
      zmq::socket_t& socket = channel == Channel::control ? state.control : state.data;
      Frames frames = receive_frames(socket);
      if (frames.count == 0) continue;
      try {
        return From{channel, decode_frames(std::move(frames))};
      } catch (const Error& error) {
        throw PeerLost("master", fmt::format("the master broke the protocol: {}", error.what()));
      }
    }
    std::array<zmq::pollitem_t, 3> items{{{state.control.handle(), 0, ZMQ_POLLIN, 0},
                                          {state.data.handle(), 0, ZMQ_POLLIN, 0},
                                          {state.monitor.handle(), 0, ZMQ_POLLIN, 0}}};
    try {
      if (zmq::poll(items.data(), items.size(), remaining(deadline)) == 0) return std::nullopt;
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) return std::nullopt;  // so that the caller sees its flags
      throw;
    }
  }
}

void ClientLink::send(Channel channel, const Envelope& envelope, Deadline deadline) {
  zmq::socket_t& socket = channel == Channel::control ? state_->control : state_->data;
  while (true) {
    state_->watch();
    try {
      if (send_frames(socket, envelope)) return;
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw PeerLost("master", fmt::format("sending to the master failed: {}", error.what()));
    }
    const auto tick = std::min(deadline, Clock::now() + std::chrono::milliseconds(200));
    if (!poll(socket, ZMQ_POLLOUT, tick) && Clock::now() >= deadline) {
      throw PeerLost("master", "the master takes nothing any more");
    }
  }
}

bool ClientLink::connected() {
  state_->watch();
  return state_->stands;
}

}  // namespace convoy::wire
