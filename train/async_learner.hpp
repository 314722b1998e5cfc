// Asynchronous training: each replica computes a batch from the newest weights, and the server updates by each gradient
// as it comes (Downpour SGD: Dean et al., Large Scale Distributed Deep Networks, NIPS 2012).
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "train/replica_learner.hpp"

namespace convoy {

/// A step takes one batch. When its gradients come, updates by other batches may have come in between: their number is
/// the staleness. With a bound, a gradient that would make another one staler than the bound waits until that one has
/// come, and at most bound + 1 batches are computed at once (Ho et al., More Effective Distributed ML via a Stale
/// Synchronous Parallel Parameter Server, NIPS 2013). The running averages are those of the batch whose gradients came
/// last. With one replica, or a bound of 0, training is the same to the bit as on one machine.
class AsyncLearner : public ServerLearner {
 public:
  /// At most `parts` batches are computed at once.
  AsyncLearner(std::vector<std::unique_ptr<Replica>> replicas, const Cut& cut, int batch, int parts,
               std::optional<int> bound, const HeadPlace& place = {});

  BatchLoss accumulate(const Images& images, const Labels& labels, const Pass& pass) override;
  int ahead() const override { return at_once_ - 1; }
  void give(const Images& images, const Labels& labels, const Pass& pass) override;
  BatchLoss take() override;
  std::optional<long> staleness() const override { return staleness_; }
  void apply(const UpdateStep& step, const Progress& after) override;

 private:
  /// A batch that was given and not yet taken.
  struct Flight {
    std::size_t task = 0;
    Replica::Task work;
    bool begun = false;
    long version = 0;                       ///< updates before the weights that its replica has
    std::optional<Replica::Result> result;  ///< once it is done
  };

  void begin_flights();
  bool leaves_others_in_bounds(const Flight& taken) const;
  std::list<Flight>::iterator next_to_take();

  std::optional<int> bound_;
  int at_once_;
  std::list<Flight> flights_;      ///< in the order in which they were given
  std::vector<std::size_t> come_;  ///< tasks that are done, in the order in which they came
  std::size_t tasks_given_ = 0;
  long last_given_ = 0;  ///< Pass::step of the last batch
  long version_ = 0;     ///< number of updates
  std::optional<long> staleness_;
};

}  // namespace convoy
