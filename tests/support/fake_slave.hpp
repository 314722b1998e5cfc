// A slave for tests that serves correctly until it misbehaves at a given message.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "devices/registry.hpp"
#include "slave/session.hpp"
#include "wire/tcp_link.hpp"

namespace convoy {

class FakeSlave {
 public:
  using Misdeed = void (*)(FakeSlave& slave);

  struct Options {
    std::string name = "evil";
    int spared = 0;          ///< number of messages `at` that it still handles correctly
    bool reachable = false;  ///< whether it announces a port for other slaves
    int times = 1 << 30;     ///< number of times that it misbehaves
    int steps = 1 << 30;     ///< number of Steps after which it misbehaves, if no message `at` has come
  };

  /// `misdeed` replaces the handling of messages of the kind `at`, such as "Step".
  FakeSlave(const std::string& endpoint, std::string at, Misdeed misdeed, Options options)
      : device_(make_device("reference", {.threads = 1})),
        link_(std::make_unique<wire::TcpClientLink>(endpoint)),
        session_(*link_, *device_, 0, cache_),
        at_(std::move(at)),
        misdeed_(misdeed),
        options_(std::move(options)) {}
  FakeSlave(const std::string& endpoint, std::string at, Misdeed misdeed)
      : FakeSlave(endpoint, std::move(at), misdeed, Options()) {}

  /// Serves until `stop` is set, the master ends the run, or the master refuses the slave for a reason other than its
  /// name.
  void run(const std::atomic<bool>& stop) {
    using namespace std::chrono_literals;
    try {
      bool welcome = false;
      auto next_hello = wire::Clock::now();
      while (!stop && link_ != nullptr) {
        if (!welcome && wire::Clock::now() >= next_hello) {
          say_hello();
          next_hello = wire::Clock::now() + 300ms;
        }
        const auto from = session_.next(wire::Clock::now() + 5ms);
        if (hangs_) continue;
        if (from && std::holds_alternative<wire::Welcome>(from->envelope.message)) {
          if (!std::exchange(welcome, true)) send(wire::Attach{options_.name});
        } else if (from && std::holds_alternative<wire::Refused>(from->envelope.message)) {
          refusal_ = std::get<wire::Refused>(from->envelope.message).reason;
          if (refusal_.find("taken") == std::string::npos) return;
        } else if (from && is_occasion(from->envelope.message) && options_.times-- > 0) {
          // The master ignores messages of the new plan before Assigned.
          if (const auto* assign = std::get_if<wire::Assign>(&from->envelope.message)) {
            send(wire::Assigned{assign->token});
          }
          misdeed_(*this);
        } else if (from) {
          session_.take(*from);
        }
        while (link_ != nullptr && session_.work()) {
        }
      }
    } catch (const PeerLost&) {
      // The master has ended the run or has vanished. A link that stayed would look to it like a slave that hangs.
      link_.reset();
    }
  }

  void send(const wire::Message& message, wire::Channel channel = wire::Channel::data) {
    link_->send(channel, {message, {}}, wire::Clock::now() + std::chrono::seconds(5));
  }
  void send_piece(const wire::Piece& piece, std::size_t bytes) {
    link_->send(wire::Channel::data, {piece, wire::Payload(bytes)}, wire::Clock::now() + std::chrono::seconds(5));
  }
  void vanish() { link_.reset(); }
  void hang() { hangs_ = true; }
  /// The reason of the master's last refusal.
  const std::string& refusal() const { return refusal_; }

 private:
  bool is_occasion(const wire::Message& message) {
    if (std::holds_alternative<wire::Step>(message) && options_.steps-- <= 0) return true;
    return wire::name_of(message) == at_ && options_.spared-- <= 0;
  }
  void say_hello() {
    send(wire::Hello{.version = wire::kProtocolVersion,
                     .name = options_.name,
                     .device = "none",
                     .threads = 1,
                     .peer_port = options_.reachable ? static_cast<std::uint32_t>(link_->peer_port()) : 0},
         wire::Channel::control);
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<wire::ClientLink> link_;
  StateCache cache_{""};
  Session session_;
  std::string at_;
  Misdeed misdeed_;
  Options options_;
  bool hangs_ = false;
  std::string refusal_;
};

}  // namespace convoy
