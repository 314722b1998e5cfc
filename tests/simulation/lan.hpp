// The machines, programs and connections of a simulated cluster, and what may befall them. A connection keeps the order
// of its messages, each of which takes its own time; different connections know nothing of each other. It is what
// ZeroMQ makes of TCP: bytes that a path loses for a while come later, a connection that breaks loses what was on its
// way, and whoever connected connects again.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "tests/simulation/log.hpp"
#include "tests/simulation/scheduler.hpp"
#include "wire/link.hpp"

namespace convoy::simulation {

/// A program that runs on a machine, from its start to its end.
struct Program {
  std::string machine;  ///< IP address
  Actor* actor = nullptr;
  bool alive = true;
  int sends_left = -1;  ///< after which it dies; negative: it does not
};

/// The bytes of a message.
struct Packet {
  std::vector<std::byte> header;
  wire::Payload payload;
  std::string name;  ///< for the log
};

/// `garbage` in place of the header's bytes, where it is not empty.
Packet packet_of(const wire::Envelope& envelope, const std::vector<std::byte>& garbage = {});
/// Throws Error where the bytes are no message.
wire::Envelope envelope_of(Packet&& packet);

struct Connection;

/// What a connection leads to.
class End {
 public:
  virtual ~End() = default;
  virtual void take(Connection& from, Packet&& packet) = 0;
  virtual void stands(Connection& connection) = 0;
  virtual void broke(Connection& connection) = 0;
  /// Messages that lie there unread.
  virtual std::size_t unread(const Connection& from) const = 0;
};

/// The side that connected, and the one that listened.
enum Side : std::uint8_t { connector = 0, listener = 1 };
inline Side other(Side side) { return side == connector ? listener : connector; }

struct Connection : std::enable_shared_from_this<Connection> {
  struct Flying {
    Time arrival;
    Packet packet;
  };
  /// What one side sends.
  struct Way {
    std::deque<Flying> flying;
    Time last{};         ///< arrival of the last message
    bool ends = false;   ///< the sender closes the connection when all has arrived
    bool moves = false;  ///< an event waits for the first message
  };

  std::string id;            ///< by which the listener knows it
  std::uint64_t number = 0;  ///< in the order of their making
  wire::Channel channel = wire::Channel::data;
  std::pair<std::string, int> address;  ///< machine and port of the listener
  std::array<End*, 2> ends{};           ///< null: gone
  std::array<Program*, 2> programs{};
  std::array<bool, 2> stands{};
  std::array<Way, 2> ways;   ///< by the sender
  std::deque<Packet> early;  ///< what the connector sent before the connection stood
  Time delay{};
  Time retry{};
  Time heard{};               ///< when heartbeats last passed
  std::uint64_t session = 0;  ///< counts how often it stood or broke
};
using ConnectionPtr = std::shared_ptr<Connection>;

class Lan {
 public:
  /// A message takes `longest` or less, if it is not lost on the way.
  Lan(Scheduler& scheduler, Log& log, std::uint64_t seed, Time longest)
      : scheduler_(scheduler), log_(log), random_(seed, 2), longest_(longest) {}

  // ---- what links do

  /// Returns false where the port is taken.
  bool listen(Program& program, int port, End& end);
  void close_port(Program& program, int port);
  int free_port() { return next_port_++; }
  /// Connects, again and again, until close().
  ConnectionPtr connect(Program& program, End& end, wire::Channel channel, const std::pair<std::string, int>& address,
                        std::string id);
  /// What was sent arrives first where the program lives.
  void close(const ConnectionPtr& connection, Side side);
  /// Closes what leads to a link that ends.
  void close_all(End& end);
  /// Messages that wait on the way, or unread at its end.
  std::size_t queued(const Connection& connection, Side from) const;
  void send(const ConnectionPtr& connection, Side from, Packet&& packet);

  // ---- what happens to them

  /// Ends a program at once: its connections break, and some of what it sent is lost. Where the `machine` vanishes with
  /// it, nobody is told.
  void kill(Program& program, bool machine);
  /// Nothing passes between two machines for so long.
  void part(const std::string& one, const std::string& two, Time time);
  /// Breaks the connections of a kind between two machines. What is on its way is lost.
  void cut(const std::string& one, const std::string& two, wire::Channel channel);

  Random& random() { return random_; }
  Log& log() { return log_; }
  Scheduler& scheduler() { return scheduler_; }
  /// The most messages that ever lay in one connection.
  std::size_t most_queued() const { return most_queued_; }

 private:
  Time path_clear(const Connection& connection) const;
  bool passes(const Connection& connection) const;
  void attempt(const ConnectionPtr& connection);
  void establish(const ConnectionPtr& connection);
  void beat(const ConnectionPtr& connection, std::uint64_t session);
  void schedule(const ConnectionPtr& connection, Side from);
  void move(const ConnectionPtr& connection, Side from);
  void break_end(const ConnectionPtr& connection, Side side);
  Time drawn(Time least, Time most);

  Scheduler& scheduler_;
  Log& log_;
  Random random_;
  Time longest_;
  int next_port_ = 40000;
  std::uint64_t made_ = 0;
  struct Listening {
    Program* program;
    End* end;
  };
  std::map<std::pair<std::string, int>, Listening> ports_;
  std::vector<std::weak_ptr<Connection>> connections_;
  std::map<std::pair<std::string, std::string>, Time> parted_until_;
  std::set<std::string> vanished_;
  std::size_t most_queued_ = 0;
};

}  // namespace convoy::simulation
