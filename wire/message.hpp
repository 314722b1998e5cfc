// The messages between master and slaves, as plain structs. PROTOCOL.md gives the grammar and the order; codec.hpp
// turns them into bytes and back; link.hpp carries them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/shard_state.hpp"
#include "plan/plan.hpp"
#include "plan/profile.hpp"
#include "wire/contents.hpp"

namespace convoy::wire {

inline constexpr std::uint32_t kProtocolVersion = 9;
/// The capability of taking and giving Pieces in bf16, fp16 and int8.
inline constexpr const char* kSixteenBits = "16-bit-wire";
/// Payload bytes of a Piece at most; larger tensors travel as several.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

// ---- control connection --------------------------------------------------------------------------------------------

/// Slave to master, first of all, repeated until it is answered.
struct Hello {
  std::uint32_t version = kProtocolVersion;
  std::string name;    ///< chosen with --name, else host-pid; how messages call the slave
  std::string device;  ///< DeviceInfo::description
  std::uint32_t threads = 1;
  std::uint64_t memory = 0;               ///< bytes for shards; 0 for no bound
  std::uint32_t filter_block = 1;         ///< DeviceInfo::filter_block
  std::vector<std::string> capabilities;  ///< kSixteenBits
  std::uint32_t peer_port = 0;            ///< TCP port on which it listens for other slaves; 0 for none
  std::string peer_key;                   ///< and its public key there, in Z85; empty without encryption
};
/// Master to slave: you are in. The run's tasks follow on the data connection.
struct Welcome {
  std::uint32_t version = kProtocolVersion;
  std::string run;
};
/// Master to slave: you are not in (wrong version, name taken, no room), and why. The slave tells its user.
struct Refused {
  std::string reason;
};
/// Either way: the run is over for the sender (finished, Ctrl-C, error), and why.
struct Bye {
  std::string reason;
};
/// Master to slave: asks nothing; shows whether the connection stands.
struct Ping {};
/// Slave to master: it wants to go, and works on until the run can do without it. Answered by Bye.
struct Leaving {};

// ---- data connection -----------------------------------------------------------------------------------------------

/// Slave to master, first on the data connection: binds it to the Hello of the same name.
struct Attach {
  std::string name;
};
/// Master to slave: time forward and backward of a shard, without weights.
struct Calibrate {
  Stage stage;
  std::uint32_t filters = 1;
  std::uint32_t batch = 1;
  bool input_gradient = true;
  std::uint32_t repeats = 3;
};
struct Calibrated {
  double forward = 0.0;  ///< median seconds of a pass
  double backward_input = 0.0;
  double backward_filters = 0.0;
  double update = 0.0;
};
/// Filters of a stage whose state one slave takes over from another.
struct StateMove {
  std::uint32_t stage_index = 0;
  FilterRange filters;
  int from = 0;  ///< nodes
  int to = 0;
};
/// Master to slave, at any time: the plan from now on and which node of it the slave is; drops the step at hand and what
/// the slave held before, or what of it the plan takes away. Answered by Assigned at once; then by Done when its shards are
/// compiled and all peers that it sends to are reached, else by Unreached or Failed.
struct Assign {
  std::vector<Stage> trunk;
  Plan plan;
  std::uint32_t node = 0;
  std::string token;  ///< of the run: what peers say with other tokens is ignored
  std::vector<std::string>
      peers;          ///< by member, where it listens for peers: "HOST:PORT", or ":PORT" on the master's host
  bool keep = false;  ///< the state of filters that the slave's shards had before and have again
  std::vector<std::string> peer_keys = {};  ///< by member, its Hello's
  std::vector<StateMove> moves = {};        ///< with `keep`: what slaves send one another at Move
};
/// Slave to master: what it says from now on is of the plan with this token.
struct Assigned {
  std::string token;
};
/// Master to slave: the state of filters that the slave computes, by what its blocks contain. Answered by Wanted, and by
/// Done when the slave has all of it.
struct Load {
  std::uint32_t stage_index = 0;
  FilterRange filters;
  std::vector<Content> contents;  ///< of each of state_blocks(filters)
};
/// Slave to master: the blocks of the last Load that it has not; their values follow as Pieces, one block after another.
struct Wanted {
  std::uint32_t stage_index = 0;
  std::vector<std::uint32_t> blocks;  ///< ascending
};
/// Master to slave, after everybody's Done for an Assign with moves: the slave sends others what of its former shards they
/// take over. Answered by Done when all that it takes over itself is here.
struct Move {};
/// Master to slave: a step begins. Answered by Done when nothing of it is left to do for the slave.
struct Step {
  std::uint64_t number = 0;  ///< from 1 on, one more each time
  Pass pass;
};
/// Slave with shards to master, in a step whose pass asks for it, once all its gradients are there: the sum of their
/// squares. The Update comes afterwards.
struct Squares {
  double sum = 0.0;
};
/// Master to slave: update the shards as soon as their gradients are known.
struct Update {
  UpdateStep step;
};
/// Master to slave, between two steps: answered by the state of filters of the slave's shard as it is now, as Pieces that
/// come when there is time; steps may go on meanwhile.
struct Snapshot {
  std::uint32_t stage_index = 0;
  FilterRange filters;
};
/// Values from `first` on, in the payload: of the send `task` of the plan's graph in step `step`; or, where step is 0, of
/// the state of stage `task` (its parameters, each with the optimizer's moments behind it; in fp32).
struct Piece {
  std::uint64_t step = 0;
  std::uint32_t task = 0;
  std::uint64_t first = 0;
  bool operator==(const Piece&) const = default;
};
/// Master to slave, in a star: it may send `pieces` more Pieces with parts of gradients.
struct Credit {
  std::uint32_t pieces = 0;
};
/// Slave to master: what was asked is done. Times since the last Done, in seconds.
struct Done {
  double compute = 0.0;
  double transfer = 0.0;
  double wait = 0.0;
  std::vector<double> stages;  ///< of compute, in the plan's stages; empty where there is none
};
/// Slave to master: it failed (out of memory, a device's error); the text is for the user.
struct Failed {
  std::string reason;
};

/// Slave to master: it cannot connect to these slaves, or its links to them broke; it waits for another plan.
struct Unreached {
  std::vector<std::string> peers;  ///< names
};

/// Master to slave: `pieces` Pieces follow, of any values. Answered by Probed when they are here, and by the same Pieces
/// back: to measure the connection.
struct Probe {
  std::uint32_t pieces = 0;
};
struct Probed {
  HostSpeed host;
};

using Message = std::variant<Hello, Welcome, Refused, Bye, Ping, Attach, Calibrate, Calibrated, Assign, Load, Step,
                             Update, Snapshot, Piece, Credit, Done, Failed, Unreached, Probe, Assigned, Leaving, Probed,
                             Squares, Move, Wanted>;

/// "Forward", "Piece": for messages to people.
std::string name_of(const Message& message);

}  // namespace convoy::wire
