// The messages between master and slaves, as plain structs. PROTOCOL.md gives their grammar and order, codec.hpp
// encodes and decodes them, and link.hpp carries them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/images.hpp"
#include "core/machine_energy.hpp"
#include "core/step_work.hpp"
#include "plan/plan.hpp"
#include "plan/profile.hpp"
#include "wire/contents.hpp"

namespace convoy::wire {

inline constexpr std::uint32_t kProtocolVersion = 24;
/// The capability of receiving and sending Pieces in bf16, fp16 and int8.
inline constexpr const char* kSixteenBits = "16-bit-wire";
/// Says that the slave's device computes nothing and only takes the time of computing.
inline constexpr const char* kPaced = "paced";
/// Says that the slave's device updates weights to the same bits as others (devices/same_bits.hpp).
inline constexpr const char* kSameBits = "same-bits";
/// Says that the slave keeps images by their contents, so that images that it has need not be sent again.
inline constexpr const char* kKeepsImages = "keeps-images";
/// The most images that one Originals may name.
inline constexpr std::size_t kMostOriginals = 16384;
/// The largest payload of a Piece, in bytes; a larger tensor travels as several Pieces.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

// ---- control connection --------------------------------------------------------------------------------------------

/// Slave to master: the first message, repeated until it is answered.
struct Hello {
  std::uint32_t version = kProtocolVersion;
  std::string name;    ///< --name, or HOST-PID; names the slave in texts for people
  std::string device;  ///< DeviceInfo::description
  std::uint32_t threads = 1;
  std::uint64_t memory = 0;               ///< bytes that shards may use; 0 for no bound
  std::uint32_t filter_block = 1;         ///< DeviceInfo::filter_block
  std::vector<std::string> capabilities;  ///< kSixteenBits, kPaced, kSameBits, kKeepsImages
  std::uint32_t peer_port = 0;            ///< TCP port at which it listens for other slaves; 0 for none
  std::string peer_key;                   ///< public key towards other slaves, in Z85; empty without encryption
  /// Where `memory` is the host's, so that it must also hold values on their way: how many bytes of it a byte of
  /// `memory` stands for. 0 where the device has memory of its own.
  double memory_factor = 0.0;
};
/// Master to slave: the slave is admitted. The run's tasks follow on the data connection.
struct Welcome {
  std::uint32_t version = kProtocolVersion;
  std::string run;
};
/// Master to slave: the slave is not admitted (wrong version, name taken, lobby full). The slave shows its user the
/// reason.
struct Refused {
  std::string reason;
};
/// Either direction: the run is over for the sender (finished, Ctrl-C, error), with the reason.
struct Bye {
  std::string reason;
};
/// Either direction: a sign of life that needs no answer. On its data connection a slave also says how far it is.
struct Ping {
  std::uint32_t left = 0;  ///< tasks of the step at hand that the slave still has to finish
  bool waiting = false;    ///< whether the slave can do nothing before more arrives from others
};
/// Slave to master: the slave's user wants it to leave. It works on until the master says Bye.
struct Leaving {};

// ---- data connection -----------------------------------------------------------------------------------------------

/// Slave to master: the first message on the data connection, which binds it to the Hello of the same name.
struct Attach {
  std::string name;
};
/// Master to slave: a request to time the passes of the first `filters` filters of a stage. Answered by Calibrated.
struct Calibrate {
  Stage stage;
  std::uint32_t filters = 1;
  std::uint32_t batch = 1;
  bool input_gradient = true;
  std::uint32_t repeats = 3;
};
/// Slave to master: the median seconds of each pass.
struct Calibrated {
  double forward = 0.0;
  double backward_input = 0.0;
  double backward_filters = 0.0;
  double update = 0.0;
};
/// Filters of a stage whose state node `to` takes over from node `from`.
struct StateMove {
  std::uint32_t stage_index = 0;
  FilterRange filters;
  int from = 0;
  int to = 0;
};
/// Master to slave, at any time: the new plan, and the node of it that the slave is. The slave drops the step in
/// progress and the state that it held, or with `keep` only the state that the plan takes away. It answers Assigned at
/// once, and Done when its shards are compiled and all peers that it sends to are connected, else Unreached or Failed.
struct Assign {
  std::vector<Stage> trunk;
  Plan plan;
  std::uint32_t node = 0;
  std::string token;  ///< identifies the plan; messages of peers with other tokens are ignored
  /// For each member, where it listens for other slaves: "HOST:PORT", or ":PORT" on the master's host.
  std::vector<std::string> peers;
  bool keep = false;  ///< keep the state of filters that the slave's shards had before and have again
  std::vector<std::string> peer_keys = {};  ///< for each member, the peer_key of its Hello
  std::vector<StateMove> moves = {};        ///< with `keep`: the states that slaves send one another at Move
  /// With encryption, for each slave the public key by which it is a client of the master and of other slaves.
  std::vector<std::string> client_keys = {};
};
/// Slave to master: all further messages of the slave belong to the plan with this token.
struct Assigned {
  std::string token;
};
/// Master to slave: the state of filters that the slave computes, as hashes of its blocks. Answered by Wanted, and by
/// Done when the slave has the whole state.
struct Load {
  std::uint32_t stage_index = 0;
  FilterRange filters;
  std::vector<Content> contents;  ///< the hash of each of state_blocks(filters)
  /// In which the values and moments of trained parameters travel, without being rounded; not int8.
  NumberType type = NumberType::fp32;
  bool moments = true;  ///< whether the state has moments; otherwise the slave keeps the moments that it has
};
/// Slave to master: the blocks of the last Load that the slave lacks. The master sends their values as Pieces, one
/// block after another.
struct Wanted {
  std::uint32_t stage_index = 0;
  std::vector<std::uint32_t> blocks;  ///< indices into Load::contents, ascending
};
/// Master to slave, when all slaves have answered an Assign with moves: the slave sends the states of its former shards
/// to the slaves that take them over. Answered by Done when the slave has received all states that it takes over
/// itself.
struct Move {};
/// Master to slave: the next step. The slave begins it when it has finished the step before, and answers Done when it
/// has finished all its tasks of the step. At most one step may wait.
struct Step {
  std::uint64_t number = 0;  ///< counts from 1 in each plan
  StepWork work;
};
/// Slave with shards to master, in a step whose gradients are clipped: the sum of the squares of all its gradients. The
/// update of the next Step depends on it.
struct Squares {
  double sum = 0.0;
};
/// Master to slave, between two steps: a request for the present state of filters of the slave's shard, or for their
/// gradients after a training step. In a type of 16 bits a state says by how much each trained parameter has changed
/// since the last Load of these filters, which must have come in 16 bits, too. The slave answers with Pieces, which it
/// may send while further steps run.
struct Snapshot {
  std::uint32_t stage_index = 0;
  FilterRange filters;
  bool gradients = false;  ///< the gradient of each trained parameter, without moments, and the running averages
  NumberType type = NumberType::fp32;  ///< of gradients, or of changes and moments; rounded to nearest; not int8
  bool moments = true;                 ///< whether a state comes with its moments
};
/// The payload holds values from index `first` on. In a step, they are the values of the sending task `task` of the
/// plan's graph. If `step` is 0, they are the state of stage `task`: its parameters, each followed by the optimizer's
/// moments if these travel. Trained parameters and their moments have the type of the Load or Snapshot, others fp32.
struct Piece {
  std::uint64_t step = 0;
  std::uint32_t task = 0;
  std::uint64_t first = 0;
  bool operator==(const Piece&) const = default;
};
/// Master to slave that keeps images, in the place of the Pieces of a task of the graph that sends images: the contents
/// of the images of which the samples are views. Answered by Missing.
struct Originals {
  std::uint64_t step = 0;
  std::uint32_t task = 0;
  std::vector<Content> contents = {};   ///< for each sample, the hash of its original's pixels
  std::vector<ImageView> views = {};    ///< for each sample; empty if samples are their originals
  std::vector<std::uint8_t> fill = {};  ///< with views: for each channel, the pixel outside of an image
};
/// Slave to master: the samples whose originals it lacks. The master sends these originals as Pieces of the task, one
/// after another; Piece::first counts their pixels.
struct Missing {
  std::uint64_t step = 0;
  std::uint32_t task = 0;
  std::vector<std::uint32_t> samples = {};  ///< indices into Originals::contents, ascending
};
/// Master to slave, in a star: the slave may send `pieces` more Pieces of input gradients.
struct Credit {
  std::uint32_t pieces = 0;
};
/// Slave to master: the request is done. The times, in seconds, cover the interval since the last Done.
struct Done {
  double compute = 0.0;
  double transfer = 0.0;
  double wait = 0.0;
  std::vector<double> stages;  ///< compute time of each stage of the plan; empty without a plan
  /// Stages of which the slave's own filters have values that are infinite or NaN, after an update.
  std::vector<std::uint32_t> broken = {};
  std::optional<MachineEnergy> energy = {};  ///< once the slave has begun a step
};
/// Slave to master: the request failed (out of memory, a device's error); the text is for the master's user.
struct Failed {
  std::string reason;
};

/// Slave to master: the slave cannot connect to these slaves, or its links to them broke. It waits for another plan.
struct Unreached {
  std::vector<std::string> peers;  ///< names
};

/// Master to slave: a measurement of the connection. `pieces` Pieces of any values follow; the slave answers Probed
/// when it has them all, and sends the same Pieces back.
struct Probe {
  std::uint32_t pieces = 0;
};
/// Slave to master: the answer to Probe.
struct Probed {
  HostSpeed host;
};

using Message = std::variant<Hello, Welcome, Refused, Bye, Ping, Attach, Calibrate, Calibrated, Assign, Load, Step,
                             Snapshot, Piece, Credit, Done, Failed, Unreached, Probe, Assigned, Leaving, Probed,
                             Squares, Move, Wanted, Originals, Missing>;

/// The name of a message's kind, such as "Piece", for texts for people.
std::string name_of(const Message& message);

}  // namespace convoy::wire
