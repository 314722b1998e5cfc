// One port of a master for several runs in one process, each in a thread of its own. The switchboard owns the link and
// gives each run a line: a network on which the run's master hears the slaves of some names alone.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "wire/link.hpp"

namespace convoy::wire {

/// A slave that says Hello goes to the line that has its name. If none has, it gets no answer, which leaves it asking
/// every half second, and it is one of waiting(). All functions may be called from several threads.
class Switchboard {
 public:
  /// Returns why a slave may take part in no run, as a sentence for its user; empty if it may. It is called in the
  /// switchboard's thread.
  using Objection = std::function<std::string(const ServerLink::From& from, const Hello& hello)>;

  /// Listens at an endpoint; see Network::listen(). Throws Error naming the endpoint.
  Switchboard(const std::string& endpoint, const LinkOptions& options, Objection objection = {});
  /// Sends what is queued. No line may be left.
  ~Switchboard();
  Switchboard(const Switchboard&) = delete;
  Switchboard& operator=(const Switchboard&) = delete;

  /// The endpoint, with the actual port.
  std::string endpoint() const;

  struct Caller {
    std::string name;
    std::string device;  ///< as the slave says
    std::string key;     ///< public key by which it was admitted; empty without keys
  };
  /// The slaves that asked to join in the last seconds and that no line has, by name. Throws the error by which the
  /// switchboard's thread has ended, if it has.
  std::vector<Caller> waiting() const;
  /// Connections and slaves that were turned away since the last call.
  std::vector<Refusal> take_refusals();

  class Line;
  struct Inbox;
  struct State;
  /// A line for the slaves of these names. The names must be those of no other line.
  std::unique_ptr<Line> line(std::set<std::string> names);

 private:
  std::shared_ptr<State> state_;
};

/// The network of one run's master. It must outlive its link, which one thread may use, and not the switchboard.
class Switchboard::Line final : public Network {
 public:
  /// For Switchboard::line().
  Line(std::shared_ptr<State> state, std::shared_ptr<Inbox> inbox)
      : state_(std::move(state)), inbox_(std::move(inbox)) {}
  ~Line() override;
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  /// Returns the only link of the line. It has the switchboard's endpoint and keys, whatever the arguments say. A send
  /// returns at once: that a slave is gone shows in the next send to it.
  std::unique_ptr<ServerLink> listen(const std::string& endpoint, const LinkOptions& options) override;
  /// Must not be called: the line is a master's.
  std::unique_ptr<ClientLink> connect(const std::string& endpoint, const LinkOptions& options, int peer_port) override;

  /// The slaves of the line's names that no run has: they have sent nothing on their data connections, are gone, or
  /// were sent away.
  std::vector<std::string> absent() const;

 private:
  class Link;

  std::shared_ptr<State> state_;
  std::shared_ptr<Inbox> inbox_;
};

}  // namespace convoy::wire
