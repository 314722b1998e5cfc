// A replica: a whole copy of the net, on one machine or on a crew of slaves, that computes batches from weights that it
// is given. It may also train on its own weights for some steps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "model/checkpoint.hpp"
#include "model/heads.hpp"
#include "train/trunk.hpp"
#include "train/turns.hpp"

namespace convoy {

class Replica;

/// The turns of replicas that share a link with the weights.
struct Semaphore {
  Turns<Replica> weights;    ///< to be sent the weights
  Turns<Replica> gradients;  ///< to send gradients, or the replica's own weights
};

/// Several replicas compute at the same time if their owner calls advance() of each, and wait() of one when none of
/// them could do anything.
class Replica {
 public:
  /// `cut` has no moments (without_moments) unless the replica has local tasks. `place` is where this machine computes
  /// the heads. The trunk must outlive the replica, or be replaced with use().
  Replica(Trunk& trunk, const Cut& cut, int batch, const HeadPlace& place = {});
  virtual ~Replica() = default;

  struct Task {
    /// Returns the weights to compute with, in the form of the replica's cut. It is called when the replica begins, and
    /// again if it has to do the task again.
    std::function<std::shared_ptr<const ModelState>()> weights;
    Images images;
    Labels labels = {};  ///< of each image, in training
    Pass pass;
    /// In training: the replica computes with its own weights, if it has trained from the given ones, and keeps the
    /// gradients for update().
    bool local = false;
    /// With local: the weights come from an exchange of models without moments. A replica whose model is part of the
    /// exchange keeps its moments when it loads the weights.
    bool own_moments = false;
  };
  struct Result {
    BatchLoss loss;        ///< in training
    ModelState gradients;  ///< in training, unless local: of the mean loss, in the form that ParameterServer takes
    Tensor maps;           ///< in testing: the last of the trunk's outputs
    /// See begin_model(). In a type of 16 bits the values of the stages' trained parameters are what they have changed.
    std::optional<ModelState> model;
  };

  /// From now on, the replica takes weights and gives gradients only in its turn. The semaphore must outlive it.
  void wait_for(Semaphore& semaphore) { semaphore_ = &semaphore; }

  /// From now on, weights, gradients and models travel in this type; see Trunk::carry_states_in().
  void carry_in(NumberType type) { trunk_->carry_states_in(type_ = type); }

  /// Takes a task. The replica must be idle.
  void begin(Task task);
  /// Begins to collect the replica's own weights, and its moments if these are wanted, in the place of a task. The
  /// result has no model unless the replica has trained from the weights `from`, and has them still: it goes back to
  /// its task's weights if members are lost.
  void begin_model(const std::shared_ptr<const ModelState>& from, bool moments);
  /// Does some of the task, without waiting. Returns false if nothing can be done before others answer. If members are
  /// lost, the replica does the task again with the members that are left, or throws PeerLost.
  bool advance();
  void wait() { trunk_->wait(); }
  bool idle() const { return phase_ == Phase::idle; }
  bool done() const { return phase_ == Phase::done; }
  /// Returns the result of a task that is done; the replica is idle then.
  Result take();

  /// Updates the replica's own weights by the gradients of its last task, which was local. Without these gradients it
  /// does nothing.
  void update(const UpdateStep& step);
  /// Waits until the members have finished what they were given. If members are lost, their work is lost.
  void settle();
  /// The first stage or dense layer that update() left with values that are not finite. See Trunk::broken().
  std::optional<Broken> broken() const;

  /// Whether the replica has the machines that it is for, or will have them when it next begins a task. A replica that
  /// has lost them still works, but slowly.
  virtual bool whole() { return true; }
  std::vector<MemberTime> take_times() { return trunk_->take_times(); }

 protected:
  /// Changes to another trunk of the same net.
  void use(Trunk& trunk);

 private:
  enum class Phase : std::uint8_t { idle, given, waiting, loading, computing, ending, collecting, done };
  enum class Trained : std::uint8_t {
    no,         ///< the weights are those that were loaded
    gradients,  ///< a local task has ended, whose update is due
    updated     ///< the weights are the replica's own
  };

  /// Makes a new trunk after a loss, and use()s it.
  virtual void recover(const PeerLost& lost) { throw lost; }
  /// Called before the task begins, where the members may change.
  virtual void prepare() {}
  /// Called when the task is done.
  virtual void count_step() {}

  bool step();
  bool has(const std::shared_ptr<const ModelState>& weights) const;
  void leave_turns();
  void load(std::shared_ptr<const ModelState> weights);
  bool compute();
  void end_computing();
  void collect(std::vector<ShardState> trunk);

  Trunk* trunk_;
  Heads heads_;
  NumberType type_ = NumberType::fp32;  ///< see carry_in()
  Semaphore* semaphore_ = nullptr;      ///< null where transfers of several replicas may run at the same time
  Phase phase_ = Phase::idle;
  Task task_;
  Result result_;
  bool averages_;               ///< whether a training pass changes running averages
  bool wants_model_ = false;    ///< whether it collects its model instead of gradients
  bool wants_moments_ = false;  ///< whether the model that it collects has moments
  bool has_moments_ = false;    ///< whether the last model that it gave left its moments with it
  /// The weights that the trunk and the heads have, or had before update(); null where they are not known.
  std::shared_ptr<const ModelState> loaded_;
  Trained trained_ = Trained::no;
  long updated_ = 0;  ///< Pass::step of the last update()
};

}  // namespace convoy
