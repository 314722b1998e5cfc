// One run as a slave sees it: from the master's welcome to its bye. It is a node of the master's plan.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "core/stopwatch.hpp"
#include "devices/calibrate.hpp"
#include "exchange/node.hpp"
#include "slave/loading_state.hpp"
#include "slave/moving_states.hpp"
#include "slave/state_cache.hpp"
#include "wire/link.hpp"

namespace convoy {

class Session {
 public:
  /// `memory` bounds the shards' bytes (0: no bound). Link, device and cache must outlive the session.
  Session(wire::ClientLink& link, Device& device, std::size_t memory, StateCache& cache);

  /// Serves until the master says bye; its reason. Once `stop` is set the master is asked to do without this slave
  /// (`leaving` is called); if it has not said bye within `patience` after that, returns nothing, and the caller says bye.
  /// Throws PeerLost when the
  /// master is gone or broke the protocol. What fails here is answered with Failed.
  std::optional<std::string> serve(const std::atomic<bool>& stop, std::chrono::milliseconds patience,
                                   const std::function<void()>& leaving);

  /// What serve() does in turns: waits for a message; takes it; works at a task of the step, or sends a Piece of a state
  /// that the master asked for, false if there is nothing to do.
  std::optional<wire::ClientLink::From> next(wire::Deadline deadline);
  void take(const wire::ClientLink::From& from);
  bool work();

 private:
  template <class Action>
  bool try_to(const std::string& what, Action action);
  void on(const wire::Calibrate& task);
  void on(const wire::Probe& probe);
  void on(const wire::Assign& task);
  void on(const wire::Load& task);
  void on(const wire::Move& task);
  void on(const wire::Step& step);
  void on(const wire::Update& task);
  void on(const wire::Snapshot& task);
  void on(const wire::Credit& credit);
  void on(const wire::Ping&) {}
  void give_up(const std::string& peer);
  bool send_state();
  template <class T>
  void on(const T& message);  // whatever a master never sends

  /// How long the master may leave a started transfer without progress. It computes a share itself and serves others
  /// meanwhile; whether it lives at all is the control connection's matter.
  static constexpr auto kTransferPatience = std::chrono::minutes(10);

  /// The Pieces of a Probe that have arrived.
  struct Probing {
    std::uint32_t pieces = 0;     ///< number of Pieces that the Probe announced
    double seconds_before = 0.0;  ///< process_seconds() when the Probe arrived
    std::vector<wire::Envelope> received;
  };
  /// Whether the master has announced Pieces, in a Load or Probe, that have not all arrived. Until they have, it may send
  /// nothing but these Pieces, Ping, Bye, and an Assign, which ends the transfer.
  bool transferring() const { return probing_ || loading_; }
  void await_transfer();
  void end_transfer();
  void take_transferred(const wire::Piece& piece, const wire::Envelope& envelope);
  void finish_probe();
  void finish_load();
  void take_from_peer(const wire::ClientLink::From& from);
  void take_from_master(const wire::Envelope& envelope);
  Node& node();
  void check_memory(const wire::Assign& task) const;
  std::vector<std::string> meet_peers(const wire::Assign& task);
  void carry(Parcel&& parcel);
  void receive(int from, const wire::Piece& piece, const wire::Payload& payload);
  void finish_step();
  void finish_move();
  void send_squares();
  void finish();
  void show_life();
  void send(const wire::Message& message);
  std::size_t bytes_of(const ShardSpec& spec) const;

  wire::ClientLink& link_;
  Device& device_;
  std::size_t memory_;
  StateCache& cache_;
  std::unique_ptr<Node> node_;
  int index_ = 0;  ///< of the node
  std::vector<std::string> members_;
  std::uint64_t step_ = 0;
  bool in_step_ = false;
  bool stepped_ = false;      ///< in this run: what is loaded later is of this run alone
  bool squares_sent_ = true;  ///< or not asked for
  std::optional<Probing> probing_;
  std::optional<LoadingState> loading_;
  wire::Deadline transfer_until_;      ///< when the master must have sent the next message of a transfer
  bool given_up_ = false;              ///< the plan: a link that it needs broke, and the master was told
  std::deque<wire::Envelope> states_;  ///< asked for with Snapshot: sent when there is time
  MovingStates moving_;
  bool move_owed_ = false;  ///< a Done, when moving_ is complete
  /// Of the next step, whose beginning the master told other slaves first.
  struct Early {
    int from;
    wire::Piece piece;
    wire::Payload payload;
  };
  std::deque<Early> early_;
  std::size_t early_bytes_ = 0;
  std::optional<HostTimes> host_;
  Stopwatch watch_;      ///< runs since the last event that times_ counts
  wire::Done times_;     ///< since the last Done
  wire::Deadline sign_;  ///< when the master has to hear of this slave again
  std::optional<std::string> bye_;
};

}  // namespace convoy
