// Slaves that work under one plan, from the time at which they leave the lobby to their Bye. The crew watches whether
// they are alive. All messages between the master and a member go through the member's crew.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "master/cluster/lobby.hpp"
#include "wire/link.hpp"

namespace convoy {

/// slaves() returns the members. An error that a member's message leads to is a PeerLost that names the member.
class Crew {
 public:
  static constexpr std::size_t kMostMembers = 1024;  ///< as many as a plan may have

  /// Makes a crew without members. The lobby must outlive it.
  explicit Crew(Lobby& lobby);
  /// Sends Bye to all remaining members.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  Lobby& lobby() { return lobby_; }

  /// Waits until there are `count` slaves, then makes ready guests members until there are `most` members. Members are
  /// sorted by name. Calls `changed` at the start and whenever a slave joins or leaves the lobby. Returns false if
  /// `stop` is set before. While it waits, slaves may join however often they were lost.
  bool gather(int count, const std::atomic<bool>& stop, const std::function<void()>& changed,
              std::size_t most = kMostMembers);

  const std::vector<SlaveInfo>& slaves() const { return slaves_; }
  /// The members and the slaves in the lobby, for the calls of `changed`.
  std::vector<SlaveInfo> present() const;

  /// Whether a guest is ready to join this crew, or a member wants to leave.
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
  /// Makes a member a member of another crew of the lobby. It must be there.
  void hand_over(const std::string& name, Crew& to);
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
  enum class Awaited : std::uint8_t {
    one_by_one,  ///< each slave can answer without the others
    at_work      ///< slaves have many tasks, and wait for one another
  };
  /// Returns the next message on a slave's data connection, other than signs of life, or nothing at the deadline. While
  /// it waits, it pings all slaves and admits newcomers to the lobby. Throws PeerLost naming the slave if a member is
  /// gone or breaks the protocol, or if judge() finds that a member in `awaited` (indices) hangs.
  std::optional<Arrival> receive(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience,
                                 wire::Deadline deadline = wire::Deadline::max(), Awaited as = Awaited::one_by_one);
  /// Whether the last receive() found no message at all, not even one for another crew.
  bool quiet() const { return quiet_; }
  /// Waits a tenth of a second, or until a message arrives for any crew or the lobby.
  void wait();
  /// Throws PeerLost naming the first member in `awaited` that hangs. A member hangs if for `patience` it has neither
  /// sent nor been sent anything but signs of life. If the members are `at_work`, signs of life suffice from a member
  /// that says that it waits for others, or that has fewer and fewer tasks left.
  void judge(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience, Awaited as) const;

  /// Ends the run for all members.
  void dismiss(const std::string& reason);

  // For the lobby.
  bool has(const std::string& id) const { return find(id) < slaves_.size(); }
  /// Puts a member's message into the inbox.
  void deliver(wire::ServerLink::From&& from);
  /// Pings the members. receive() throws PeerLost for one that is not connected or admitted any more.
  void ping();

 private:
  /// What the connections of a member have shown.
  struct Liveness {
    wire::Deadline heard;           ///< time of the last message on the data connection, sent or received
    wire::Deadline message;         ///< the same, without signs of life
    wire::Deadline progress;        ///< the same, or time of the last sign of life with fewer tasks left
    std::uint32_t left = kUnknown;  ///< the smallest number of tasks left in its signs of life since `message`
    bool waiting = false;           ///< whether its last sign of life says that it waits for others
    bool gone = false;              ///< whether a ping did not reach it
    std::string fault;              ///< why it is lost, as the predicate of a sentence; empty if it is not
    static constexpr std::uint32_t kUnknown = ~0U;
  };

  void watch_members();
  std::optional<wire::ServerLink::From> take_delivered();
  std::optional<Arrival> take(std::size_t slave, wire::ServerLink::From& from);
  void expect_admitted();
  void count_sign(std::size_t slave);
  void take_aside();
  [[noreturn]] void bury(std::size_t slave, const std::string& how);
  std::size_t find(const std::string& id) const;
  void take_control(std::size_t slave, const wire::Message& message);
  void take_sign(std::size_t slave, const wire::Ping& ping);

  Lobby& lobby_;
  std::vector<SlaveInfo> slaves_;
  std::vector<Liveness> liveness_;            ///< of each member
  std::deque<wire::ServerLink::From> inbox_;  ///< messages of members that receive() has not taken yet
  std::size_t inbox_bytes_ = 0;
  bool quiet_ = false;
  wire::Deadline closed_until_;  ///< guests stay in the lobby until then
};

}  // namespace convoy
