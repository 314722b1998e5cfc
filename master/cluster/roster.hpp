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

#include "master/cluster/lobby.hpp"
#include "wire/beacon.hpp"
#include "wire/link.hpp"

namespace convoy {

/// Slaves wait in the lobby until they are taken in; those that were are the members, slaves(). What a member sends ends at
/// most in a PeerLost that names the member.
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

  /// Takes slaves in until there are `count`, and all that are ready by then; they are in order of their names from then
  /// on. Calls `changed` at the start and whenever one comes or goes. Returns false if `stop` was set before. Since the run
  /// needs the slaves, those that it lost again and again may join, too.
  bool gather(int count, const std::atomic<bool>& stop, const std::function<void()>& changed);

  const std::vector<SlaveInfo>& slaves() const { return slaves_; }
  /// For the calls of `changed`: those that are here, taken in or not.
  std::vector<SlaveInfo> present() const;

  /// From now on only slaves of these names are let into the lobby; others are told `reason`.
  void admit_only(std::set<std::string> names, std::string reason) {
    lobby_.admit_only(std::move(names), std::move(reason));
  }
  /// Whether a guest is ready, or a member wants to leave.
  bool changes() const;
  /// Handles what newcomers say while nobody is spoken to otherwise.
  void attend();
  /// Takes in the guests that are ready: at most so many, those of addresses from which few were lost first.
  void take_in(std::size_t most = kMostMembers);
  /// Keeps guests in the lobby for so long.
  void close_for(std::chrono::milliseconds time);
  bool open() const;
  /// Takes a slave out of the run and tells it why, if it still listens. False if there is none of that name.
  bool remove(const std::string& name, const std::string& why);
  /// Of its members, for remove_lost().
  void count_step();
  /// The same for one that failed or vanished. It may come back, unless it was lost again and again within a short time.
  bool remove_lost(const std::string& name, const std::string& why);

  /// Sends on the slave's data connection. Throws PeerLost naming the slave.
  void send(std::size_t slave, const wire::Envelope& envelope);

  struct Arrival {
    std::size_t slave = 0;
    wire::Envelope envelope;
  };
  enum class Awaited : std::uint8_t {
    one_by_one,  ///< each slave can answer without the others
    at_work      ///< slaves have many tasks, and wait for one another
  };
  /// The next message on a slave's data connection but signs of life, or nothing at the deadline. Meanwhile pings
  /// everybody and lets newcomers into the lobby. Throws PeerLost naming the slave when one is gone, breaks the
  /// protocol, or when a slave of `awaited` (indices) hangs. A slave hangs if for `patience` it has neither sent nor been
  /// sent anything, or has sent signs of life alone. Among members at work (`Awaited::at_work`), signs of life do for a
  /// slave that has ever fewer tasks left, or that waits for other members.
  std::optional<Arrival> receive(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience,
                                 wire::Deadline deadline = wire::Deadline::max(), Awaited as = Awaited::one_by_one);

  /// Ends the run for all slaves.
  void dismiss(const std::string& reason);

 private:
  static constexpr std::size_t kMostMembers = 1024;  ///< as many as a plan may have

  /// What a member's data connection has shown.
  struct Liveness {
    wire::Deadline heard;           ///< the last message, either way
    wire::Deadline message;         ///< the last message, either way, that was no sign of life
    wire::Deadline progress;        ///< the same, or the last sign of life with fewer tasks left
    std::uint32_t left = kUnknown;  ///< the fewest tasks that it has said to have left since its last other message
    bool waiting = false;           ///< its last sign of life says that it waits for others
    static constexpr std::uint32_t kUnknown = ~0U;
  };

  void ping_all();
  std::optional<Arrival> take(std::size_t slave, wire::ServerLink::From& from);
  void count_sign(std::size_t slave);
  [[noreturn]] void bury(std::size_t slave, const std::string& how);
  std::size_t find(const std::string& id) const;
  void take_control(std::size_t slave, const wire::Message& message);
  void take_sign(std::size_t slave, const wire::Ping& ping);
  void judge(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience, Awaited as);

  wire::ServerLink link_;
  Lobby lobby_;
  std::optional<wire::Beacon> beacon_;  ///< where links have keys
  std::vector<SlaveInfo> slaves_;
  std::vector<Liveness> liveness_;  ///< of each slave
  wire::Deadline closed_until_;
  wire::Deadline next_ping_;
};

}  // namespace convoy
