// Who is here: the slaves of a run, from their hello to their bye. The roster owns the link and everybody's liveness;
// who speaks to slaves does so through it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wire/link.hpp"

namespace convoy {

struct SlaveInfo {
  std::string id;      ///< of its connections
  std::string name;    ///< for people
  std::string device;  ///< description
  int threads = 1;
  std::size_t memory = 0;
  int filter_block = 1;
  bool sixteen_bits = false;  ///< takes and gives maps in bf16 and fp16
  std::string address;        ///< IP address, as the master sees it
  int peer_port = 0;          ///< where it listens for other slaves; 0: it does not
};

class Roster {
 public:
  /// Listens at `endpoint` for slaves of the run named `run`. Throws Error naming the endpoint.
  Roster(const std::string& endpoint, std::string run);
  /// Says bye to whoever is still here.
  ~Roster();

  /// With the port in use.
  std::string endpoint() const { return link_.endpoint(); }

  /// Admits slaves until `count` are here, in order of their names from then on. Calls `changed` at the start and
  /// whenever one comes or goes. False if `stop` was set before.
  bool gather(int count, const std::atomic<bool>& stop, const std::function<void()>& changed);

  const std::vector<SlaveInfo>& slaves() const { return slaves_; }

  /// Sends on the slave's data connection. Throws PeerLost naming the slave.
  void send(std::size_t slave, const wire::Envelope& envelope);

  struct Arrival {
    std::size_t slave = 0;
    wire::Envelope envelope;
  };
  /// The next message on a slave's data connection but signs of life, or nothing at the deadline. Meanwhile pings
  /// everybody and turns newcomers away. Throws PeerLost naming the slave when one is gone, leaves, breaks the protocol,
  /// or when a slave of `awaited` (indices) has neither sent nor been sent anything for `patience`.
  std::optional<Arrival> receive(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience,
                                 wire::Deadline deadline = wire::Deadline::max());

  /// Ends the run for all slaves.
  void dismiss(const std::string& reason);

 private:
  struct Seen {
    wire::Deadline progress;  ///< last message either way on the data connection
    bool attached = false;
  };

  void admit(const wire::ServerLink::From& from, const wire::Hello& hello);
  void handle_newcomer(const wire::ServerLink::From& from);
  void drop(std::size_t slave);
  void drop_vanished();
  void ping_all();
  [[noreturn]] void bury(std::size_t slave, const std::string& how);
  void turn_away(const std::string& peer, const std::string& reason);
  std::size_t find(const std::string& id) const;
  int attached() const;
  void reject_control(std::size_t slave, const wire::Message& message);
  void judge_silence(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience);

  wire::ServerLink link_;
  std::string run_;
  std::vector<SlaveInfo> slaves_;
  std::vector<Seen> seen_;
  wire::Deadline next_ping_;
};

}  // namespace convoy
