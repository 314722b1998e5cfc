// The messages between master and slaves, as plain structs. PROTOCOL.md gives the grammar and the order; codec.hpp
// turns them into bytes and back; link.hpp carries them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/number_type.hpp"
#include "core/stage.hpp"

namespace convoy::wire {

inline constexpr std::uint32_t kProtocolVersion = 1;
/// The capability of taking and giving Pieces in bf16 and fp16.
inline constexpr const char* kSixteenBits = "16-bit-wire";
/// Payload bytes of one tensor frame at most; larger tensors travel as several.
inline constexpr std::size_t kFrameBytes = std::size_t{1} << 20;

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
  double seconds = 0.0;  ///< median of one forward plus backward
};
/// Master to slave: hold this shard. One for each shard; drops a shard of the same stage held before. Answered by Done.
struct Hold {
  std::uint32_t stage_index = 0;
  Stage stage;
  FilterRange filters;
  std::uint32_t batch = 1;
  bool input_gradient = true;
  NumberType wire = NumberType::fp32;  ///< of the Pieces of its maps and gradients, either way
};
/// Master to slave: the shard's state follows as frames (weights, bias, velocities). Answered by Done.
struct Load {
  std::uint32_t stage_index = 0;
};
/// Master to slave: the stage's input follows as frames; answered by the output's frames, then Done.
struct Forward {
  std::uint32_t stage_index = 0;
  Pass pass;
};
/// Master to slave: the gradient of the shard's output follows; answered by the partial input gradient's frames (if the
/// shard was held with input_gradient), then Done.
struct Backward {
  std::uint32_t stage_index = 0;
};
/// Master to slave: update all shards. Answered by Done.
struct Update {
  SgdStep step;
};
/// Master to slave: answered by the shard's state as frames, then Done.
struct Snapshot {
  std::uint32_t stage_index = 0;
};
/// A piece of a tensor in NCHW: channels [channel, channel + channels) of sample range [sample, sample + samples) of
/// the tensor that the task in progress moves; the payload holds samples * channels * row elements as little-endian
/// floats. States use part 0..3 (weights, bias, weight velocity, bias velocity), sample = filter. Everything else has
/// part 0.
struct Piece {
  std::uint32_t part = 0;
  std::uint32_t sample = 0;
  std::uint32_t samples = 0;
  std::uint32_t channel = 0;
  std::uint32_t channels = 0;
  bool operator==(const Piece&) const = default;
};
/// Master to slave: you may send `frames` more frames of the result in progress.
struct Credit {
  std::uint32_t frames = 0;
};
/// Slave to master: the task is finished. Times since the last Done, in seconds.
struct Done {
  double compute = 0.0;
  double transfer = 0.0;
  double wait = 0.0;
};
/// Slave to master: the task failed (out of memory, a device's error); the text is for the user.
struct Failed {
  std::string reason;
};

using Message = std::variant<Hello, Welcome, Refused, Bye, Ping, Attach, Calibrate, Calibrated, Hold, Load, Forward,
                             Backward, Update, Snapshot, Piece, Credit, Done, Failed>;

/// "Forward", "Piece": for messages to people.
std::string name_of(const Message& message);

}  // namespace convoy::wire
