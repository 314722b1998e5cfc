// The slaves of a run, from Hello to Bye. The roster owns the link and watches whether the slaves are alive. All
// messages between the master and its slaves go through it.
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

/// The longest text of a slave that is shown to the user, in bytes.
inline constexpr std::size_t kMostWords = 600;

struct SlaveInfo {
  std::string id;      ///< id of its connections
  std::string name;    ///< name for people
  std::string device;  ///< description of its device
  int threads = 1;
  std::size_t memory = 0;
  int filter_block = 1;
  bool sixteen_bits = false;  ///< whether it can send and receive Pieces in bf16, fp16 and int8
  std::string address;        ///< IP address, as the master sees it
  int peer_port = 0;          ///< TCP port at which it listens for other slaves; 0 for none
  std::string peer_key;       ///< its public key towards other slaves
  bool leaving = false;       ///< whether it wants to leave the run
  int steps = 0;              ///< number of steps in which it has taken part
  int signs = 0;              ///< number of signs of life in the second that began at signs_since
  wire::Deadline signs_since;
};

/// Slaves whose Hello was accepted wait in the lobby until they become members. slaves() returns the members.
class Roster {
 public:
  /// Listens at `endpoint` for slaves of the run named `run`. Without keys it accepts every slave, unencrypted. Calls
  /// `notice` with a text about each slave that is turned away. Throws Error naming the endpoint.
  Roster(const std::string& endpoint, std::string run, const std::optional<wire::MasterKeys>& keys = {},
         std::function<void(const std::string&)> notice = {});
  /// Sends Bye to all remaining slaves.
  ~Roster();

  /// The endpoint, with the actual port.
  std::string endpoint() const { return link_.endpoint(); }

  /// Waits until there are `count` slaves, then makes all slaves in the lobby members. Members are sorted by name.
  /// Calls `changed` at the start and whenever a slave joins or leaves the lobby. Returns false if `stop` is set
  /// before.
  bool gather(int count, const std::atomic<bool>& stop, const std::function<void()>& changed);

  const std::vector<SlaveInfo>& slaves() const { return slaves_; }
  /// The members and the slaves in the lobby, for the calls of `changed`.
  std::vector<SlaveInfo> present() const;

  /// From now on, admits only slaves with these names to the lobby; other slaves are refused with `reason`.
  void admit_only(std::set<std::string> names, std::string reason);
  /// Whether a slave waits in the lobby or a member wants to leave.
  bool changes() const;
  /// Handles the messages of newcomers that have arrived. It replaces receive() while the master computes alone.
  void attend();
  /// Makes the slaves in the lobby members.
  void take_in();
  /// Removes a member and tells it the reason, if it is still connected. Returns false if no member has this name.
  bool remove(const std::string& name, const std::string& why);
  /// Counts a step of every member, for remove_lost().
  void count_step();
  /// Removes a member that failed or vanished. It may join again, unless it was lost several times in a row, each time
  /// within a few steps.
  bool remove_lost(const std::string& name, const std::string& why);

  /// Sends on the slave's data connection. Throws PeerLost naming the slave.
  void send(std::size_t slave, const wire::Envelope& envelope);

  struct Arrival {
    std::size_t slave = 0;
    wire::Envelope envelope;
  };
  /// Returns the next message on a slave's data connection, other than signs of life, or nothing at the deadline. While
  /// it waits, it pings all slaves and admits newcomers to the lobby. Throws PeerLost naming the slave if a member is
  /// gone or breaks the protocol, or if a member in `awaited` (indices) has neither sent nor been sent anything for
  /// `patience`.
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
  std::optional<wire::Beacon> beacon_;  ///< only if the link has keys
  std::string run_;
  std::vector<SlaveInfo> slaves_;
  std::vector<wire::Deadline> progress_;  ///< time of the last message, sent or received, on each data connection
  std::vector<Guest> lobby_;
  std::optional<std::set<std::string>> welcome_;  ///< names of the slaves to admit; without a value, any name
  std::string unwelcome_;                         ///< the reason for refusing other names
  std::map<std::string, int> losses_;             ///< losses in a row, by the slave's name
  std::function<void(const std::string&)> notice_;
  std::map<std::string, wire::Deadline> told_;  ///< texts about refusals, and when each may be shown again
  wire::Deadline next_ping_;
};

}  // namespace convoy
