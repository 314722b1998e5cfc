// Who is here: the slaves of a run, from their hello to their bye. The roster owns the link and everybody's liveness;
// who speaks to slaves does so through it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "wire/beacon.hpp"
#include "wire/link.hpp"

namespace convoy {

/// The largest number of bytes of a slave's own words that reach the user.
inline constexpr std::size_t kMostWords = 600;

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
  std::string peer_key;       ///< its public key there
  bool leaving = false;       ///< as soon as the run can do without it
  int steps = 0;              ///< that it has taken part in
  int signs = 0;              ///< messages without news, in the second that began at
  wire::Deadline signs_since;
};

/// Slaves that have said hello wait in the lobby until they are taken in; those that were are the members, slaves().
class Roster {
 public:
  /// Listens at `endpoint` for slaves of the run named `run`; without keys to anybody, unencrypted. Tells `notice` who is
  /// turned away. Throws Error naming the endpoint.
  Roster(const std::string& endpoint, std::string run, const std::optional<wire::MasterKeys>& keys = {},
         std::function<void(const std::string&)> notice = {});
  /// Says bye to whoever is still here.
  ~Roster();

  /// With the port in use.
  std::string endpoint() const { return link_.endpoint(); }

  /// Takes slaves in until there are `count`, and all that are here by then; they are in order of their names from then
  /// on. Calls `changed` at the start and whenever one comes or goes. False if `stop` was set before.
  bool gather(int count, const std::atomic<bool>& stop, const std::function<void()>& changed);

  const std::vector<SlaveInfo>& slaves() const { return slaves_; }
  /// For the calls of `changed`: those that are here, taken in or not.
  std::vector<SlaveInfo> present() const;

  /// From now on only slaves of these names are let into the lobby; others are told `reason`.
  void admit_only(std::set<std::string> names, std::string reason);
  /// Whether anybody waits in the lobby, or wants to leave.
  bool changes() const;
  /// Handles what newcomers say while nobody is spoken to otherwise.
  void attend();
  /// Takes in who waits in the lobby.
  void take_in();
  /// Takes a slave out of the run and tells it why, if it still listens. False if there is none of that name.
  bool remove(const std::string& name, const std::string& why);
  /// Of its members, for remove_lost().
  void count_step();
  /// The same for one that failed or vanished. It may come back, unless it was lost again and again within some steps.
  bool remove_lost(const std::string& name, const std::string& why);

  /// Sends on the slave's data connection. Throws PeerLost naming the slave.
  void send(std::size_t slave, const wire::Envelope& envelope);

  struct Arrival {
    std::size_t slave = 0;
    wire::Envelope envelope;
  };
  /// The next message on a slave's data connection but signs of life, or nothing at the deadline. Meanwhile pings
  /// everybody and lets newcomers into the lobby. Throws PeerLost naming the slave when one is gone, breaks the
  /// protocol, or when a slave of `awaited` (indices) has neither sent nor been sent anything for `patience`.
  std::optional<Arrival> receive(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience,
                                 wire::Deadline deadline = wire::Deadline::max());

  /// Ends the run for all slaves.
  void dismiss(const std::string& reason);

 private:
  struct Guest {
    SlaveInfo info;
    bool attached = false;
  };

  void admit(const wire::ServerLink::From& from, const wire::Hello& hello);
  std::optional<std::string> objection(const wire::ServerLink::From& from, const wire::Hello& hello) const;
  void handle_newcomer(const wire::ServerLink::From& from);
  void tell_refusal(const wire::Refusal& refusal);
  bool reached(const std::string& id, const wire::Message& message);
  void greet_lobby();
  void ping_all();
  std::optional<Arrival> take(std::size_t slave, wire::ServerLink::From& from);
  void count_sign(std::size_t slave);
  [[noreturn]] void bury(std::size_t slave, const std::string& how);
  std::size_t find(const std::string& id) const;
  int attached() const;
  void take_control(std::size_t slave, const wire::Message& message);
  void judge_silence(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience);

  wire::ServerLink link_;
  std::optional<wire::Beacon> beacon_;  ///< where links have keys
  std::string run_;
  std::vector<SlaveInfo> slaves_;
  std::vector<wire::Deadline> progress_;  ///< last message either way on each slave's data connection
  std::vector<Guest> lobby_;
  std::optional<std::set<std::string>> welcome_;  ///< names; nothing: all
  std::string unwelcome_;                         ///< why others are not
  std::map<std::string, int> losses_;             ///< by name
  std::function<void(const std::string&)> notice_;
  std::map<std::string, wire::Deadline> told_;  ///< refusals, and when they may be told again
  wire::Deadline next_ping_;
};

}  // namespace convoy
