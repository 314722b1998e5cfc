// One run as a slave sees it: from the master's welcome to its bye. Holds shards, answers tasks in order.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/stopwatch.hpp"
#include "kernels/host_shard.hpp"
#include "wire/link.hpp"
#include "wire/stream.hpp"

namespace convoy {

class Session {
 public:
  /// `memory` bounds the shards' bytes (0: no bound). Link and device must outlive the session.
  Session(wire::ClientLink& link, Device& device, std::size_t memory);

  /// Serves until the master says bye (returns its reason) or `stop` is set (returns nothing; the caller says bye).
  /// Throws PeerLost when the master is gone or broke the protocol. A task that fails here is answered with Failed.
  std::optional<std::string> serve(const std::atomic<bool>& stop);

 private:
  void handle(const wire::Message& message);
  void on(const wire::Calibrate& task);
  void on(const wire::Hold& task);
  void on(const wire::Load& task);
  void on(const wire::Forward& task);
  void on(const wire::Backward& task);
  void on(const wire::Update& task);
  void on(const wire::Snapshot& task);
  void on(const wire::Credit&) {}  // for frames that were already sent
  void on(const wire::Ping&) {}
  template <class T>
  void on(const T& message);  // whatever a master never sends

  HostShard& shard(std::uint32_t stage_index);
  /// Receives the pieces of a tensor into `values`; `have` is called first, with the assembler, for what is at hand.
  std::span<const float> receive_tensor(const Shape& shape, const std::function<void(wire::Assembler&)>& have = {});
  template <class Assembler>
  void receive_pieces(Assembler& assembler);
  void send_tensor(std::vector<wire::Envelope> pieces);
  void finish();
  void send(const wire::Message& message);
  /// What a shard takes on the device.
  std::size_t bytes_of(const ShardSpec& spec) const;
  std::size_t bytes_held_besides(std::uint32_t stage_index) const;

  wire::ClientLink& link_;
  Device& device_;
  std::size_t memory_;
  std::map<std::uint32_t, std::unique_ptr<HostShard>> shards_;
  NumberType wire_ = NumberType::fp32;  ///< of maps and gradients, as the master asked when it had the shards held
  AlignedVector<float> staging_;
  Stopwatch watch_;   ///< runs since the last event that times_ counts
  wire::Done times_;  ///< since the last Done
  std::optional<std::string> bye_;
};

}  // namespace convoy
