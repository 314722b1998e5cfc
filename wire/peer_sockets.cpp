#include "wire/peer_sockets.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/text.hpp"
#include "wire/endpoint.hpp"
#include "wire/gatekeeper.hpp"
#include "wire/socket.hpp"

namespace convoy::wire {
namespace {

/// What follows the node in the id of a connection of the bulk lane.
constexpr std::string_view kBulkSuffix = "b";
/// The type of service of the bulk lane: throughput rather than delay. The queues of this machine's card send such
/// packets last.
constexpr int kBulkService = 0x08;
/// How long a slave waits before it connects again to a slave that did not admit it.
constexpr auto kTryAgain = std::chrono::milliseconds(100);

}  // namespace

void PeerSockets::meet(const std::string& token, int self, const std::vector<ClientLink::Peer>& peers,
                       bool names_in_ipv6) {
  for (PeerSocket& each : peers_) each.monitor.reset();
  peers_.clear();
  token_ = token;
  self_ = self;
  names_in_ipv6_ = names_in_ipv6;
  for (const ClientLink::Peer& peer : peers) {
    peers_.push_back({.peer = peer,
                      .address = printable(peer.endpoint),
                      .socket = zmq::socket_t(context_, zmq::socket_type::dealer),
                      .monitor = nullptr,
                      .fault = {}});
    meet(peers_.back());
  }
}

/// Connects to another slave, or notes why that cannot be.
void PeerSockets::meet(PeerSocket& link) {
  link.since = Clock::now();
  configure(link.socket, options_);
  // The queue is unlimited: a send that blocked on a hung peer would keep this slave from reading the master's new
  // plan.
  link.socket.set(zmq::sockopt::sndhwm, 0);
  if (link.peer.lane == Lane::bulk) link.socket.set(zmq::sockopt::tos, kBulkService);
  link.socket.set(zmq::sockopt::tcp_keepalive, 1);
  auto monitor = std::make_unique<Monitor>(context_, link.socket, fmt::format("{}-{}", ++meetings_, link.peer.node));
  try {
    const Address to = address_of_peer(link.peer.endpoint, host_of_master_);
    link.address = to_text(to);
    if (const auto& key = options_.join_key) {
      if (!is_key(link.peer.key)) fail("it announced no public key");
      encrypt_as_client(link.socket, link.peer.key, key->member);
    }
    const bool bulk = link.peer.lane == Lane::bulk;
    connect(link.socket, to, fmt::format("{}/{}{}", token_, self_, bulk ? kBulkSuffix : ""), names_in_ipv6_);
    link.monitor = std::move(monitor);
  } catch (const zmq::error_t& error) {
    link.fault = std::strerror(error.num());
  } catch (const Error& error) {
    link.fault = error.what();
  }
}

/// Connects anew to a slave that did not admit this one, since ZeroMQ gives up such a connection. The other slave may
/// just not know the plan yet.
void PeerSockets::try_again(PeerSocket& link) {
  if (!link.monitor || link.monitor->handshake_fault().empty() || Clock::now() - link.since < kTryAgain) return;
  link.monitor.reset();
  link.socket = zmq::socket_t(context_, zmq::socket_type::dealer);
  meet(link);
}

std::pair<std::vector<std::string>, bool> PeerSockets::unreached() {
  std::vector<std::string> names;
  bool hope = false;
  for (PeerSocket& each : peers_) {
    if (each.monitor) each.monitor->watch();
    if (each.monitor && each.monitor->stands()) continue;
    try_again(each);
    hope = hope || each.monitor;
    std::string name =
        fmt::format("{} at {}{}", each.peer.name, each.address, each.fault.empty() ? "" : ": " + each.fault);
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return {std::move(names), hope};
}

void PeerSockets::watch() {
  for (PeerSocket& each : peers_) {
    if (each.monitor && !each.monitor->watch()) throw LinkBroken(each.peer.name);
  }
}

void PeerSockets::send(int node, Lane lane, const Envelope& envelope) {
  const auto found =
      std::ranges::find_if(peers_, [&](const auto& each) { return each.peer.node == node && each.peer.lane == lane; });
  invariant(found != peers_.end(), "a slave sends only to nodes and in lanes that were passed to meet");
  while (true) {
    try {
      invariant(send_frames(found->socket, envelope), "the queue of a peer socket has no limit");
      return;
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw LinkBroken(found->peer.name);
    }
  }
}

std::optional<int> PeerSockets::node_of(std::string_view id) const {
  const std::string of_this_plan = token_ + "/";
  if (token_.empty() || !id.starts_with(of_this_plan)) return std::nullopt;
  int node = -1;
  const char* const end = id.data() + id.size();
  const char* const rest = std::from_chars(id.data() + of_this_plan.size(), end, node).ptr;
  if (rest != end && std::string_view(rest, end) != kBulkSuffix) return std::nullopt;
  return node;
}

}  // namespace convoy::wire
