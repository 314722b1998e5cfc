// A run on slaves that may die, join and leave, and its results, for tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "master/cluster/cluster_learner.hpp"
#include "master/commands/load_net.hpp"
#include "tests/support/process.hpp"
#include "tests/support/source_folder.hpp"
#include "tests/support/states.hpp"
#include "train/train.hpp"

namespace convoy {

inline constexpr std::uint64_t kSeed = 5;

inline NetOptions small_glyphs() {
  return {.net = source_folder() + "/nets/glyphs.yaml",
          .set = {"conv1.filters=5", "conv2.filters=9"},
          .device = "eigen",
          .device_options = {.threads = 1},
          .batch = 8,
          .seed = kSeed};
}

class Notices : public Observer {
 public:
  Notices(std::vector<std::string>& texts, std::atomic<bool>& stop, const std::string& last)
      : texts_(texts), stop_(stop), last_(last) {}
  void on_notice(const std::string& text) override {
    texts_.push_back(text);
    if (!last_.empty() && text.find(last_) != std::string::npos) stop_ = true;
  }

 private:
  std::vector<std::string>& texts_;
  std::atomic<bool>& stop_;
  const std::string& last_;
};

/// The results of a run.
struct Result {
  ModelState model;
  Progress progress;
  Plan plan;
  std::vector<std::string> notices;
};

class TrainingRun {
 public:
  explicit TrainingRun(ClusterOptions options, NetOptions net = small_glyphs(),
                       DataSet data = open_data("glyphs", kSeed))
      : net_options_(std::move(net)), data_(std::move(data)), options_(std::move(options)) {
    options_.listen = endpoint_;
    options_.insecure = true;
    observers_.push_back(std::make_unique<Notices>(notices_, stop_, last_));
  }
  const std::string& endpoint() const { return endpoint_; }
  void watch(std::unique_ptr<Observer> observer) { observers_.push_back(std::move(observer)); }
  /// The progress of what was last saved.
  const Progress& saved() const { return saved_; }
  /// Ends the run after the current step.
  void stop() { stop_ = true; }
  /// Ends the run after the step in which the run gives this notice.
  void stop_at(const std::string& notice) { last_ = notice; }

  /// Trains from the beginning, or from the state that another run has reached.
  Result train(long steps, double snapshot_seconds, const Result* from = nullptr) {
    const auto cluster = Cluster::assemble(options_, net_options_, net_, cut_, observers_, stop_);
    auto start = std::make_shared<const ModelState>(
        from != nullptr ? from->model : ModelState{initial_trunk(cut_, kSeed), initial_heads(cut_, kSeed)});
    const Training training{
        .net = net_, .training = batches_, .test = tests_, .seed = kSeed, .max_steps = steps, .stop = stop_};
    const auto learner = of_whole_net(
        std::make_unique<ClusterLearner>(*cluster, cluster->cut(), net_.training.batch, snapshot_seconds), *cluster);
    Result result;
    convoy::train(training, *learner, {start, from != nullptr ? from->progress : Progress()}, observers_,
                  [&](const TrainingState& state) {
                    saved_ = result.progress = state.progress;
                    result.model = *state.model;
                  });
    result.plan = cluster->plan();
    cluster->dismiss("the test finished");
    result.notices = notices_;
    return result;
  }

 private:
  NetOptions net_options_;
  Net net_ = load_net(net_options_);
  Cut cut_ = cut(net_);
  DataSet data_;
  Batches batches_{data_, Part::training, net_.training.batch, kSeed, net_.augment};
  Batches tests_{data_, Part::test, net_.training.batch, kSeed, Augmentation{}};
  Progress saved_;
  std::vector<std::string> notices_;
  Observers observers_;
  std::atomic<bool> stop_{false};
  std::string last_;
  std::string endpoint_ = free_endpoint();
  ClusterOptions options_;
};

inline void expect_equal(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.span().size(), b.span().size());
  EXPECT_TRUE(std::ranges::equal(a.span(), b.span()));
}

inline void expect_equal(const ModelState& a, const ModelState& b) {
  ASSERT_EQ(a.trunk.size(), b.trunk.size());
  for (std::size_t s = 0; s < a.trunk.size(); ++s) {
    EXPECT_TRUE(same_bits(a.trunk[s], b.trunk[s])) << "stage " << s;
  }
  for (std::size_t d = 0; d < a.head.size(); ++d) {
    expect_equal(a.head[d].weights.value, b.head[d].weights.value);
    expect_equal(a.head[d].bias.moments[0], b.head[d].bias.moments[0]);
  }
}

inline void expect_near(const ModelState& a, const ModelState& b) {
  for (std::size_t s = 0; s < a.trunk.size(); ++s) {
    const auto x = a.trunk[s].weights().span();
    const auto y = b.trunk[s].weights().span();
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-3) << "stage " << s << " weight " << i;
  }
}

}  // namespace convoy
