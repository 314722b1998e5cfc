// A replica: a whole copy of the net, on one machine or on a crew of slaves, that computes batches from weights that it is
// given. It keeps no optimizer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "model/checkpoint.hpp"
#include "model/heads.hpp"
#include "train/trunk.hpp"

namespace convoy {

/// Several replicas compute at the same time if their owner calls advance() of each, and wait() of one when none of them
/// could do anything.
class Replica {
 public:
  /// `cut` has no moments (without_moments). `threads` is the number of threads on this machine that compute the heads; 0
  /// uses all cores. With `pace`, the heads only take the time of computing. The trunk must outlive the replica, or be
  /// replaced with use().
  Replica(Trunk& trunk, const Cut& cut, int batch, int threads = 0, std::optional<HeadPace> pace = {});
  virtual ~Replica() = default;

  struct Task {
    /// Returns the weights to compute with, without moments. It is called when the replica begins, and again if it has to do
    /// the task again.
    std::function<std::shared_ptr<const ModelState>()> weights;
    Images images;
    std::vector<int> labels = {};  ///< a class for each image, in training
    Pass pass;
  };
  struct Result {
    BatchLoss loss;        ///< in training
    ModelState gradients;  ///< in training: of the mean loss, in the form that ParameterServer takes
    Tensor maps;           ///< in testing: the last of the trunk's outputs
  };

  /// Takes a task. The replica must be idle.
  void begin(Task task);
  /// Does some of the task, without waiting. Returns false if nothing can be done before others answer. If members are lost,
  /// the replica does the task again with the members that are left, or throws PeerLost.
  bool advance();
  void wait() { trunk_->wait(); }
  bool idle() const { return phase_ == Phase::idle; }
  bool done() const { return phase_ == Phase::done; }
  /// Returns the result of a task that is done; the replica is idle then.
  Result take();

  /// Whether the replica has the machines that it is for, or will have them when it next begins a task. A replica that has
  /// lost them still works, but slowly.
  virtual bool whole() { return true; }
  std::vector<MemberTime> take_times() { return trunk_->take_times(); }

 protected:
  /// Changes to another trunk of the same net.
  void use(Trunk& trunk);

 private:
  enum class Phase : std::uint8_t { idle, given, loading, computing, ending, collecting, done };

  /// Makes a new trunk after a loss, and use()s it.
  virtual void recover(const PeerLost& lost) { throw lost; }
  /// Called before the task begins, where the members may change.
  virtual void prepare() {}
  /// Called when the task is done.
  virtual void count_step() {}

  bool step();
  void load(std::shared_ptr<const ModelState> weights);
  bool compute();

  Trunk* trunk_;
  Heads heads_;
  Phase phase_ = Phase::idle;
  Task task_;
  Result result_;
  bool averages_;                             ///< whether a training pass changes running averages
  std::shared_ptr<const ModelState> loaded_;  ///< the weights of the trunk and the heads; null where they are not known
};

}  // namespace convoy
