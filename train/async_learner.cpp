#include "train/async_learner.hpp"

#include <algorithm>
#include <utility>

namespace convoy {

AsyncLearner::AsyncLearner(std::vector<std::unique_ptr<Replica>> replicas, const Cut& cut, int batch, int parts,
                           std::optional<int> bound, const HeadPlace& place)
    : ServerLearner(std::move(replicas), cut, batch, parts, place), bound_(bound), at_once_(parts) {
  if (bound_) at_once_ = std::min(at_once_, *bound_ + 1);
}

BatchLoss AsyncLearner::accumulate(const Images& images, const Labels& labels, const Pass& pass) {
  give(images, labels, pass);
  return take();
}

void AsyncLearner::give(const Images& images, const Labels& labels, const Pass& pass) {
  invariant(static_cast<int>(flights_.size()) < at_once_, "no more batches are given than are computed at once");
  Flight& flight = flights_.emplace_back();
  flight.task = tasks_given_++;
  flight.work = std::move(tasks_of(images, labels, pass).front());
  flight.work.weights = [this, &flight] {
    flight.version = version_;
    return server_.weights();
  };
  last_given_ = pass.step;
  begin_flights();
}

void AsyncLearner::begin_flights() {
  for (Flight& flight : flights_) {
    if (flight.begun || !begin(flight.task, flight.work)) continue;
    flight.begun = true;
    flight.version = version_;  // or newer, when the replica reads the weights
  }
}

/// Whether all other batches can still be taken within the bound after this one, the one with the oldest weights first.
/// Batches that have not begun will have newer weights.
bool AsyncLearner::leaves_others_in_bounds(const Flight& taken) const {
  if (!bound_) return true;
  std::vector<long> versions;
  for (const Flight& each : flights_) {
    if (each.begun && &each != &taken) versions.push_back(each.version);
  }
  std::ranges::sort(versions);
  for (std::size_t i = 0; i < versions.size(); ++i) {
    if (version_ + 1 + static_cast<long>(i) - versions[i] > *bound_) return false;
  }
  return true;
}

/// The batch that came first among those that may be taken; none if the replicas must go on.
std::list<AsyncLearner::Flight>::iterator AsyncLearner::next_to_take() {
  for (const std::size_t task : come_) {
    const auto flight = std::ranges::find(flights_, task, &Flight::task);
    if (leaves_others_in_bounds(*flight)) return flight;
  }
  return flights_.end();
}

BatchLoss AsyncLearner::take() {
  invariant(!flights_.empty(), "a batch was given");
  auto taken = next_to_take();
  while (taken == flights_.end()) {
    begin_flights();
    advance([this](std::size_t task, Replica::Result&& result) {
      std::ranges::find(flights_, task, &Flight::task)->result = std::move(result);
      come_.push_back(task);
    });
    taken = next_to_take();
  }
  step_ = last_given_ - static_cast<long>(flights_.size()) + 1;
  staleness_ = version_ - taken->version;
  gradients_ = server_.arrived(std::move(taken->result->gradients));
  const BatchLoss loss = taken->result->loss;
  std::erase(come_, taken->task);
  flights_.erase(taken);
  return loss;
}

void AsyncLearner::apply(const UpdateStep& step, const Progress& after) {
  ServerLearner::apply(step, after);
  ++version_;
}

}  // namespace convoy
