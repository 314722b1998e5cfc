// Runs of replicas on slaves, for tests.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "master/cluster/cluster_learner.hpp"
#include "master/cluster/cluster_replica.hpp"
#include "master/commands/load_net.hpp"
#include "tests/support/process.hpp"
#include "tests/support/source_folder.hpp"
#include "train/replica_learner.hpp"
#include "train/train.hpp"

namespace convoy {

inline constexpr std::uint64_t kRunSeed = 5;

/// Images of glyphs on a small net, on a device that computes with one thread.
inline NetOptions small_glyphs(const std::string& device) {
  return {.net = source_folder() + "/nets/glyphs.yaml",
          .set = {"conv1.filters=5", "conv2.filters=9", "training.epochs=1000", "training.learning_rate=0.002"},
          .device = device,
          .device_options = {.threads = 1},
          .batch = 8,
          .seed = kRunSeed};
}

/// Keeps what a run tells, for other threads, and ends the run.
class Notices : public Observer {
 public:
  Notices(std::vector<std::string>& texts, std::vector<long>& steps, std::mutex& mutex, std::atomic<bool>& stop,
          const std::string& last)
      : texts_(texts), steps_(steps), mutex_(mutex), stop_(stop), last_(last) {}
  void on_step(const StepReport& report) override {
    const std::lock_guard lock(mutex_);
    steps_.push_back(report.step);
  }
  void on_notice(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    texts_.push_back(text);
    if (!last_.empty() && text.find(last_) != std::string::npos) stop_ = true;
  }

 private:
  std::vector<std::string>& texts_;
  std::vector<long>& steps_;
  std::mutex& mutex_;
  std::atomic<bool>& stop_;
  const std::string& last_;
};

struct ReplicaResult {
  ModelState model;
  Progress progress;
  std::vector<std::string> notices;
  std::vector<long> steps;  ///< the numbers of the steps that were told, in their order
};

/// Makes the learner of a run from its replicas.
using MakeLearner = std::function<std::unique_ptr<ReplicaLearner>(std::vector<std::unique_ptr<Replica>> replicas,
                                                                  const Cut& cut, int batch, int parts)>;

/// A run of replicas on slaves, or on this machine where there are none.
class ReplicaRun {
 public:
  ReplicaRun(int slaves, int replicas, const std::string& device = "eigen")
      : replicas_(replicas), net_options_(small_glyphs(device)) {
    options_.slaves = slaves;
    options_.listen = endpoint_;
    options_.insecure = true;
    observers_.push_back(std::make_unique<Notices>(notices_, steps_, mutex_, stop_, last_));
  }
  const std::string& endpoint() const { return endpoint_; }
  /// Ends the run after the step in which the run gives this notice.
  void stop_at(const std::string& notice) { last_ = notice; }
  /// Waits in another thread until the run has given a notice with both texts.
  void wait_for(const std::string& text, const std::string& and_text = "") {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const std::lock_guard lock(mutex_);
      const auto fits = [&](const std::string& each) {
        return each.find(text) != std::string::npos && each.find(and_text) != std::string::npos;
      };
      if (std::ranges::any_of(notices_, fits)) return;
    }
  }

  /// The replicas keep the optimizer's moments.
  void keep_moments() { moments_ = true; }
  /// A step takes so many batches; one for each replica by default.
  void take_in_a_step(int batches) { batches_in_step_ = batches; }
  /// Batches travel and are computed whole, which gives the bits of one machine.
  void have_no_micro_batches() { options_.micro_batch = net_.training.batch; }
  /// Ends the run after the step at hand.
  void stop() { stop_ = true; }
  /// The steps that were done up to now; for other threads.
  long steps_done() {
    const std::lock_guard lock(mutex_);
    return steps_.empty() ? 0 : steps_.back();
  }

  ReplicaResult train(long steps) {
    return train(steps, [](auto replicas, const Cut& cut, int batch, int parts) {
      return std::make_unique<JoinLearner>(std::move(replicas), cut, batch, parts, 0, 1);
    });
  }
  /// Trains as with a distributed server: the slaves share the images of all replicas under one plan.
  ReplicaResult train_under_one_plan(long steps, double snapshot_seconds) {
    options_.exchange = "ring";
    options_.layout = "samples";
    Net joined = net_;
    joined.training.batch *= replicas_;
    options_.micro_batch = joined.training.batch;  // fewer plans to choose among
    std::vector<std::unique_ptr<Cluster>> clusters;
    clusters.push_back(Cluster::assemble(options_, net_options_, joined, cut_, observers_, stop_));
    ClusterLearner learner(*clusters.front(), cut_, joined.training.batch, snapshot_seconds);
    return train(steps, learner, clusters);
  }
  ReplicaResult train(long steps, const MakeLearner& make) {
    const Cut& computed = moments_ ? cut_ : bare_;
    std::vector<std::unique_ptr<Cluster>> clusters;
    if (options_.slaves == 0) {
      clusters.push_back(Cluster::assemble(options_, net_options_, net_, computed, observers_, stop_));
    } else {
      clusters = assemble_replicas(replicas_, options_, net_options_, net_, computed, observers_, stop_).clusters;
    }
    std::vector<std::unique_ptr<Replica>> replicas;
    for (const auto& each : clusters) {
      replicas.push_back(std::make_unique<ClusterReplica>(*each, computed, net_.training.batch));
    }
    const auto learner = make(std::move(replicas), cut_, net_.training.batch, replicas_);
    return train(steps, *learner, clusters);
  }

 private:
  ReplicaResult train(long steps, Learner& learner, const std::vector<std::unique_ptr<Cluster>>& clusters) {
    const int batches = batches_in_step_ > 0 ? batches_in_step_ : replicas_;
    const Batches training_batches(data_, Part::training, batches * net_.training.batch, kRunSeed, net_.augment);
    const Training training{
        .net = net_, .training = training_batches, .test = tests_, .seed = kRunSeed, .max_steps = steps, .stop = stop_};
    ReplicaResult result;
    convoy::train(
        training, learner,
        {std::make_shared<const ModelState>(ModelState{initial_trunk(cut_, kRunSeed), initial_heads(cut_, kRunSeed)})},
        observers_, [&](const TrainingState& state) {
          result.progress = state.progress;
          result.model = *state.model;
        });
    for (const auto& each : clusters) each->dismiss("the test finished");
    result.notices = notices_;
    result.steps = steps_;
    return result;
  }

  int replicas_;
  int batches_in_step_ = 0;
  bool moments_ = false;
  NetOptions net_options_;
  Net net_ = load_net(net_options_);
  Cut cut_ = cut(net_);
  Cut bare_ = without_moments(cut_);
  DataSet data_ = open_data("glyphs", kRunSeed);
  Batches tests_{data_, Part::test, replicas_* net_.training.batch, kRunSeed, Augmentation{}};
  std::vector<std::string> notices_;
  std::vector<long> steps_;
  std::mutex mutex_;
  Observers observers_;
  std::atomic<bool> stop_{false};
  std::string last_;
  std::string endpoint_ = free_endpoint();
  ClusterOptions options_;
};

}  // namespace convoy
