// The slaves of a run, from Hello to Bye. The roster owns the link and watches whether the slaves are alive. All
// messages between the master and its slaves go through it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "master/cluster/lobby.hpp"
#include "wire/beacon.hpp"
#include "wire/link.hpp"

namespace convoy {

/// Slaves whose Hello was accepted wait in the lobby until they become members. slaves() returns the members. An error that
/// a member's message leads to is a PeerLost that names the member.
class Roster {
 public:
  /// Listens at `endpoint` for slaves of the run named `run`. Without keys it accepts every slave, unencrypted. Calls
  /// `notice` with a text about each slave that is turned away. Throws Error naming the endpoint.
  Roster(const std::string& endpoint, std::string run, const std::shared_ptr<KeyRing>& keys = {},
         std::function<void(const std::string&)> notice = {}, wire::Network& network = wire::tcp_network());
  /// Sends Bye to all remaining slaves.
  ~Roster();

  /// The endpoint, with the actual port.
  std::string endpoint() const { return link_->endpoint(); }

  /// Waits until there are `count` slaves, then makes all ready guests members. Members are sorted by name. Calls `changed`
  /// at the start and whenever a slave joins or leaves the lobby. Returns false if `stop` is set before. While it waits,
  /// slaves may join however often they were lost.
  bool gather(int count, const std::atomic<bool>& stop, const std::function<void()>& changed);

  const std::vector<SlaveInfo>& slaves() const { return slaves_; }
  /// The members and the slaves in the lobby, for the calls of `changed`.
  std::vector<SlaveInfo> present() const;

  /// Whether the run's devices are paced; see Lobby::expect_paced(). Call it before slaves are gathered.
  void expect_paced(bool paced) { lobby_.expect_paced(paced); }
  /// From now on, admits only slaves with these names to the lobby; other slaves are refused with `reason`.
  void admit_only(std::set<std::string> names, std::string reason) {
    lobby_.admit_only(std::move(names), std::move(reason));
  }
  /// Whether a guest is ready to join, or a member wants to leave.
  bool changes() const;
  /// Handles the messages of newcomers that have arrived. It replaces receive() while the master computes alone.
  void attend();
  /// Makes at most `most` ready guests members.
  void take_in(std::size_t most = kMostMembers);
  /// Keeps guests in the lobby for this time. open() returns whether it has passed.
  void close_for(std::chrono::milliseconds time);
  bool open() const;
  /// Removes a member and tells it the reason, if it is still connected. Returns false if no member has this name.
  bool remove(const std::string& name, const std::string& why);
  /// Counts a step of every member, for remove_lost().
  void count_step();
  /// Refuses slaves of this name from now on, with `reason`.
  void ban(const std::string& name, const std::string& reason) { lobby_.ban(name, reason); }
  /// Removes a member that failed or vanished. It may join again, unless it was lost several times in a row, each time
  /// within a few steps.
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
  /// Returns the next message on a slave's data connection, other than signs of life, or nothing at the deadline. While
  /// it waits, it pings all slaves and admits newcomers to the lobby. Throws PeerLost naming the slave if a member is
  /// gone or breaks the protocol, or if a member in `awaited` (indices) hangs. A member hangs if for `patience` it has
  /// neither sent nor been sent anything but signs of life. If the members are `at_work`, signs of life suffice from a
  /// member that says that it waits for others, or that has fewer and fewer tasks left.
  std::optional<Arrival> receive(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience,
                                 wire::Deadline deadline = wire::Deadline::max(), Awaited as = Awaited::one_by_one);

  /// Ends the run for all slaves.
  void dismiss(const std::string& reason);

 private:
  static constexpr std::size_t kMostMembers = 1024;  ///< as many as a plan may have

  /// What the data connection of a member has shown.
  struct Liveness {
    wire::Deadline heard;           ///< time of the last message, sent or received
    wire::Deadline message;         ///< the same, without signs of life
    wire::Deadline progress;        ///< the same, or time of the last sign of life with fewer tasks left
    std::uint32_t left = kUnknown;  ///< the smallest number of tasks left in its signs of life since `message`
    bool waiting = false;           ///< whether its last sign of life says that it waits for others
    static constexpr std::uint32_t kUnknown = ~0U;
  };

  void ping_all();
  std::optional<Arrival> take(std::size_t slave, wire::ServerLink::From& from);
  void count_sign(std::size_t slave);
  void greet_lobby();
  void take_aside(const wire::ServerLink::From& from);
  [[noreturn]] void bury(std::size_t slave, const std::string& how);
  std::size_t find(const std::string& id) const;
  void take_control(std::size_t slave, const wire::Message& message);
  void take_sign(std::size_t slave, const wire::Ping& ping);
  void judge(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience, Awaited as);

  std::shared_ptr<KeyRing> keys_;  ///< null without encryption
  std::unique_ptr<wire::ServerLink> link_;
  Lobby lobby_;
  std::optional<wire::Beacon> beacon_;  ///< only if the link has keys
  std::vector<SlaveInfo> slaves_;
  std::vector<Liveness> liveness_;  ///< of each member
  wire::Deadline closed_until_;     ///< guests stay in the lobby until then
  wire::Deadline next_ping_;
};

}  // namespace convoy
