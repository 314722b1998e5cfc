// A slave's part in one run, from the master's Welcome to its Bye. The slave is a node of the master's plan.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/stopwatch.hpp"
#include "devices/known_times.hpp"
#include "energy/run_energy.hpp"
#include "exchange/node.hpp"
#include "slave/coming_images.hpp"
#include "slave/loading_state.hpp"
#include "slave/moving_states.hpp"
#include "slave/state_cache.hpp"
#include "wire/early_pieces.hpp"
#include "wire/link.hpp"

namespace convoy {

/// Serves one run. A session is used by one thread, which either calls serve() or calls next(), take() and work() in
/// turn.
class Session {
 public:
  /// `memory` is the largest number of bytes that shards may take, or 0 for no bound. Where the device's shards are in
  /// the host's memory, it must also hold values on their way, and states are kept only in what is left. Link, device
  /// and cache must outlive the session. `energy` may be null; then Dones say nothing of energy. Timings are kept in
  /// the folder `times`. `images` may be null; then the slave keeps no images, and must not have said that it does.
  Session(wire::ClientLink& link, Device& device, std::size_t memory, StateCache& cache,
          energy::RunEnergy* energy = nullptr, const std::filesystem::path& times = {}, ImageStore* images = nullptr);

  /// Serves until the master says Bye, and returns its reason. Once `stop` is set, calls `leaving` and asks the master
  /// to do without this slave. If the master has not said Bye within `patience` after this, returns nothing; the caller
  /// must then say Bye. Errors of this slave are reported to the master with Failed. Throws PeerLost if the master
  /// vanished or broke the protocol, and DeviceLost if the device is lost.
  std::optional<std::string> serve(const std::atomic<bool>& stop, std::chrono::milliseconds patience,
                                   const std::function<void()>& leaving);

  /// Waits for a message. Returns nothing if none arrives before the deadline.
  std::optional<wire::ClientLink::From> next(wire::Deadline deadline);
  /// Handles a message.
  void take(const wire::ClientLink::From& from);
  /// Works at one task of the step, or sends one Piece of a state that the master asked for. Returns false if there was
  /// nothing to do.
  bool work();

 private:
  /// Runs `action`. If it fails, tells the master and returns false. `what` names the action in an error text.
  template <class Action>
  bool try_to(const std::string& what, Action action);
  void on(const wire::Calibrate& task);
  void on(const wire::Probe& probe);
  void on(const wire::Assign& task);
  void on(const wire::Load& task);
  void on(const wire::Move& task);
  void on(const wire::Step& step);
  void expect_moments_for(const UpdateStep& step);
  void expect_scales_for_images(const StepWork& work);
  void on(const wire::Snapshot& task);
  void on(const wire::Originals& originals);
  bool take_original(const wire::Piece& piece, const wire::Payload& payload);
  void give_images(std::uint64_t step, std::uint32_t task);
  void on(const wire::Credit& credit);
  void on(const wire::Ping&) {}
  /// A master that was busy answers each of the Hellos that it finds.
  void on(const wire::Welcome&) {}
  void give_up(const std::string& peer);
  void answer_snapshots();
  void put_state(const wire::Snapshot& task);
  bool send_state();
  /// Fails for all other messages, which a master never sends.
  template <class T>
  void on(const T& message);

  /// How long the master may leave a transfer without progress. The limit is long because the master also computes and
  /// serves other slaves; the control connection shows whether the master is alive.
  static constexpr auto kTransferPatience = std::chrono::minutes(10);

  /// The Pieces of a Probe that have arrived.
  struct Probing {
    std::uint32_t pieces = 0;     ///< number of Pieces that the Probe announced
    double seconds_before = 0.0;  ///< process_seconds() when the Probe arrived
    std::vector<wire::Envelope> received;
  };
  /// Whether the master has announced Pieces, in a Load or Probe, that have not all arrived. Until they have, it may
  /// send nothing but these Pieces, Ping, Bye, and an Assign, which ends the transfer.
  bool transferring() const { return probing_ || loading_; }
  void await_transfer();
  void end_transfer();
  void take_transferred(const wire::Piece& piece, const wire::Envelope& envelope);
  void finish_probe();
  void finish_load();
  void take_from_peer(const wire::ClientLink::From& from);
  void take_from_master(const wire::Envelope& envelope);
  Node& node();
  std::size_t expect_memory(const wire::Assign& task) const;
  std::vector<std::string> meet_peers(const wire::Assign& task);
  void carry(Parcel&& parcel);
  void receive(int from, const wire::Piece& piece, const wire::Payload& payload);
  void finish_step();
  void finish_move();
  void begin(const wire::Step& step);
  void send_squares();
  void finish();
  void count(double compute, double transfer, double wait);
  void show_life();
  void send(const wire::Message& message);
  std::size_t bytes_of(const ShardSpec& spec) const;

  wire::ClientLink& link_;
  Device& device_;
  std::size_t memory_;
  StateCache& cache_;
  energy::RunEnergy* energy_;
  KnownTimes known_times_;
  ImageStore* images_;
  std::unique_ptr<Node> node_;
  int index_ = 0;  ///< index of node_ in the plan's graph
  std::vector<std::string> members_;
  std::uint64_t step_ = 0;
  bool in_step_ = false;
  bool gradients_ = false;    ///< whether the last Step of the master brings gradients by which the next may update
  bool stepped_ = false;      ///< whether a step has begun in this run; states loaded later belong to this run only
  bool squares_sent_ = true;  ///< whether Squares were sent in this step, or are not asked for
  std::optional<Probing> probing_;
  std::optional<LoadingState> loading_;
  wire::Deadline transfer_until_;  ///< when the master must have sent the next message of a transfer
  bool given_up_ = false;          ///< whether a link that the plan needs broke; the master knows and sends a new plan
  /// By stage, the values of a Load in 16 bits, from which Snapshots of changes count.
  std::map<std::size_t, FilterState> loaded_;
  std::deque<wire::Snapshot> asked_;   ///< Snapshots whose values are not known yet
  std::deque<wire::Envelope> states_;  ///< Pieces of states that the master asked for with Snapshot, still to be sent
  MovingStates moving_;
  bool move_owed_ = false;          ///< whether Done is due when moving_ is complete
  std::optional<wire::Step> next_;  ///< the next step, which the master sent while this slave is in the step before
  wire::EarlyPieces early_;
  /// Images that the master has offered and that are not all there, by step and task.
  std::map<std::pair<std::uint64_t, std::uint32_t>, ComingImages> coming_;
  std::optional<HostTimes> host_;
  Stopwatch watch_;      ///< measures the time since the last event that times_ counts
  wire::Done times_;     ///< times since the last Done
  wire::Deadline sign_;  ///< when this slave must send the master its next sign of life
  std::optional<std::string> bye_;
};

}  // namespace convoy
