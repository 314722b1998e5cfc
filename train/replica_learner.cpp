#include "train/replica_learner.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/random.hpp"
#include "train/model_arithmetic.hpp"

namespace convoy {
namespace {

/// Streams of a step's seed from which its batches after the first draw theirs.
constexpr std::uint64_t kPartStream = std::uint64_t{3} << 32;

Pass pass_of(const Pass& step, int part) {
  Pass pass = step;
  pass.squares = false;  // the server sums them, of the mean
  if (part == 0) return pass;
  Random random(step.seed, kPartStream + static_cast<std::uint64_t>(part));
  const std::uint64_t high = random.next();
  pass.seed = (high << 32) | random.next();
  return pass;
}

/// Some images of a batch.
Images part_of(const Images& images, int first, int count) {
  Shape shape = images.shape();
  shape.n = count;
  Images part{.pixels = Pixels(shape), .scales = images.scales, .fill = images.fill};
  std::ranges::copy(images.pixels.samples(first, count), part.pixels.data());
  if (!images.originals.empty()) {
    const auto from = images.originals.begin() + first;
    part.originals.assign(from, from + count);
  }
  return part;
}

}  // namespace

ReplicaLearner::ReplicaLearner(std::vector<std::unique_ptr<Replica>> replicas, const Cut& cut, int batch, int parts,
                               const HeadPlace& place)
    : replicas_(std::move(replicas)),
      tasks_(replicas_.size()),
      batch_(batch),
      parts_(parts),
      heads_(without_moments(cut), batch * parts_, place),
      trunk_outputs_(cut.heads.size()) {}

void ReplicaLearner::transfer_in_turns() {
  for (const auto& each : replicas_) each->wait_for(semaphore_);
}

std::vector<Replica::Task> ReplicaLearner::tasks_of(const Images& images, const Labels& labels, const Pass& pass) {
  std::vector<Replica::Task> tasks;
  for (int part = 0; part < images.shape().n / batch_; ++part) {
    Replica::Task task{.weights = [this] { return weights(); },
                       .images = part_of(images, part * batch_, batch_),
                       .pass = pass_of(pass, part)};
    if (pass.training) task.labels = labels.part(part * batch_, batch_);
    tasks.push_back(std::move(task));
  }
  return tasks;
}

bool ReplicaLearner::takes_part(std::size_t number) {
  return replicas_[number]->whole() || std::ranges::none_of(replicas_, [](const auto& each) { return each->whole(); });
}

Replica& ReplicaLearner::assign(std::size_t number, std::size_t task) {
  tasks_[number] = task;
  return *replicas_[number];
}

bool ReplicaLearner::begin(std::size_t task, Replica::Task& work) {
  for (std::size_t r = 0; r < replicas_.size(); ++r) {
    if (!replicas_[r]->idle() || !takes_part(r)) continue;
    assign(r, task).begin(std::move(work));
    return true;
  }
  return false;
}

void ReplicaLearner::advance(const Done& done) {
  bool worked = false;
  Replica* busy = nullptr;
  for (std::size_t r = 0; r < replicas_.size(); ++r) {
    Replica& replica = *replicas_[r];
    if (replica.idle()) continue;
    worked = replica.advance() || worked;
    if (!replica.done()) {
      busy = &replica;
      continue;
    }
    Replica::Result result = replica.take();
    if (const auto task = std::exchange(tasks_[r], std::nullopt)) done(*task, std::move(result));
  }
  if (!worked && busy != nullptr) busy->wait();
}

void ReplicaLearner::drop_tasks() { std::ranges::fill(tasks_, std::nullopt); }

const Tensor& ReplicaLearner::outputs(const Images& images) {
  std::vector<Replica::Task> tasks = tasks_of(images, {}, {});
  std::size_t given = 0;
  std::size_t tested = 0;
  while (tested < tasks.size()) {
    while (given < tasks.size() && begin(given, tasks[given])) ++given;
    advance([&](std::size_t task, Replica::Result&& result) {
      Shape shape = result.maps.shape();
      shape.n = batch_ * parts_;
      if (maps_.shape() != shape) maps_ = Tensor(shape);
      std::ranges::copy(result.maps.span(), maps_.samples(static_cast<int>(task) * batch_, batch_).data());
      ++tested;
    });
  }
  heads_.load(weights()->head);
  heads_.forward(std::vector<const Tensor*>(trunk_outputs_, &maps_), {});
  return heads_.outputs();
}

std::vector<MemberTime> ReplicaLearner::take_times() {
  std::vector<MemberTime> times;
  for (const auto& replica : replicas_) add_times(replica->take_times(), times);
  return times;
}

// ---- a server ------------------------------------------------------------------------------------------------------

void ServerLearner::carry_in(NumberType type) {
  server_.carry_in(type);
  for (std::size_t r = 0; r < replica_count(); ++r) replica(r).carry_in(type);
}

void ServerLearner::apply(const UpdateStep& step, const Progress& after) {
  server_.update(step, gradients_, step_);
  stands_ = after;
}

void ServerLearner::load(TrainingState from) {
  server_.load(*from.model);
  stands_ = from.progress;
}

const TrainingState* ServerLearner::kept() const {
  kept_ = {server_.state(), stands_};
  return &kept_;
}

// ---- join ----------------------------------------------------------------------------------------------------------

BatchLoss JoinLearner::accumulate(const Images& images, const Labels& labels, const Pass& pass) {
  step_ = pass.step;
  std::vector<Replica::Task> tasks = tasks_of(images, labels, pass);
  const std::size_t wanted = tasks.size() - static_cast<std::size_t>(backups_);
  std::vector<std::optional<Replica::Result>> results(tasks.size());
  std::size_t given = 0;
  std::size_t come = 0;
  while (come < wanted) {
    while (given < tasks.size() && begin(given, tasks[given])) ++given;
    advance([&](std::size_t task, Replica::Result&& result) {
      if (come == wanted) return;
      results[task] = std::move(result);
      ++come;
    });
  }
  drop_tasks();
  BatchLoss loss;
  std::vector<ModelState> gradients;
  for (std::optional<Replica::Result>& result : results) {
    if (!result) continue;
    loss.sum += result->loss.sum;
    loss.correct += result->loss.correct;
    gradients.push_back(server_.arrived(std::move(result->gradients)));
  }
  gradients_ = mean_of(std::move(gradients));
  if (backups_ == 0) return loss;
  const double all = static_cast<double>(tasks.size()) / static_cast<double>(wanted);
  return {.sum = all * loss.sum, .correct = static_cast<int>(std::lround(all * loss.correct))};
}

}  // namespace convoy
