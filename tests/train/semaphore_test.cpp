// Transfers in turns: with the semaphore, one replica is sent weights and one sends gradients at a time; training is
// the same.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/train/replica_nets.hpp"
#include "train/async_learner.hpp"
#include "train/local_steps_learner.hpp"

namespace convoy {
namespace {

/// How many transfers run in each direction, and the most at the same time.
struct Link {
  struct Direction {
    int now = 0;
    int most = 0;
    long all = 0;
    void begin() {
      most = std::max(most, ++now);
      ++all;
    }
    void end() { --now; }
  };
  Direction weights;
  Direction gradients;
};

/// A trunk to which weights take some polls, and from which gradients and snapshots do. It may lose a member while
/// weights come.
class DistantTrunk : public LocalTrunk {
 public:
  DistantTrunk(const Cut& cut, Device& device, Link& link, int loses_load)
      : LocalTrunk(cut.trunk, input_shape(cut.trunk[0], kBatch), device), link_(link), loses_load_(loses_load) {}
  void begin_load(const std::vector<ShardState>& states) override {
    LocalTrunk::begin_load(states);
    link_.weights.begin();
    loading_ = kPolls;
  }
  bool settled() const override { return loading_ == 0; }
  void begin_gradients() override {
    LocalTrunk::begin_gradients();
    begin_sending();
  }
  void begin_snapshot(bool moments) override {
    LocalTrunk::begin_snapshot(moments);
    begin_sending();
  }
  std::optional<std::vector<ShardState>> take_snapshot() override {
    if (sending_ > 0) return std::nullopt;
    return LocalTrunk::take_snapshot();
  }
  bool poll() override {
    if (loading_ > 0 && loads_ == loses_load_) {
      loads_ = loading_ = 0;
      loses_load_ = -1;
      link_.weights.end();
      throw PeerLost("doomed", "slave doomed is gone");
    }
    if (loading_ > 0 && --loading_ == 0) {
      ++loads_;
      link_.weights.end();
      return true;
    }
    if (sending_ > 0 && --sending_ == 0) {
      link_.gradients.end();
      return true;
    }
    return loading_ > 0 || sending_ > 0;
  }

 private:
  static constexpr int kPolls = 3;
  void begin_sending() {
    link_.gradients.begin();
    sending_ = kPolls;
  }
  Link& link_;
  int loses_load_;
  int loads_ = 0;
  int loading_ = 0;
  int sending_ = 0;
};

/// A replica that does its task again on the same trunk.
class Tough : public Replica {
 public:
  Tough(Trunk& trunk, const Cut& cut) : Replica(trunk, cut, kBatch, 1), trunk_(trunk) {}

 private:
  void recover(const PeerLost&) override { use(trunk_); }
  Trunk& trunk_;
};

struct Trained {
  std::shared_ptr<const ModelState> model;
  Link link;
};

using Make = std::function<std::unique_ptr<ReplicaLearner>(std::vector<std::unique_ptr<Replica>>, const Cut&)>;

/// Trains four replicas, of which one loses a member.
Trained train_with(const Make& make, const NetCase& c, bool bare, bool in_turns, int batches) {
  const Cut cut = net_of(c);
  const Cut computed = bare ? without_moments(cut) : cut;
  const auto device = make_device("eigen", {.threads = 1});
  Trained trained;
  std::vector<std::unique_ptr<DistantTrunk>> trunks;
  std::vector<std::unique_ptr<Replica>> replicas;
  for (int i = 0; i < kReplicas; ++i) {
    trunks.push_back(std::make_unique<DistantTrunk>(computed, *device, trained.link, i == 1 ? 1 : -1));
    replicas.push_back(std::make_unique<Tough>(*trunks.back(), computed));
  }
  const auto learner = make(std::move(replicas), cut);
  if (in_turns) learner->transfer_in_turns();
  learner->load(initial(cut));
  train_some(*learner, c, cut, batches * kBatch);
  learner->outputs(images_of(cut, 99, kReplicas * kBatch).images);
  trained.model = learner->state();
  EXPECT_EQ(trained.link.weights.now, 0);
  EXPECT_EQ(trained.link.gradients.now, 0);
  return trained;
}

void expect_turns(const Trained& in_turns, const Trained& at_once) {
  EXPECT_EQ(in_turns.link.weights.most, 1);
  EXPECT_EQ(in_turns.link.gradients.most, 1);
  EXPECT_GT(at_once.link.weights.most, 1);
  EXPECT_EQ(in_turns.link.weights.all, at_once.link.weights.all);
  EXPECT_EQ(in_turns.link.gradients.all, at_once.link.gradients.all);
}

const NetCase kNet{"Momentum", {.learning_rate = 0.05, .momentum = 0.9}, true, true};

TEST(TransfersInTurns, GiveJoinTheSameBits) {
  const Make join = [](auto replicas, const Cut& cut) {
    return std::make_unique<JoinLearner>(std::move(replicas), cut, kBatch, kReplicas, 0, 1);
  };
  const Trained in_turns = train_with(join, kNet, true, true, kReplicas);
  const Trained at_once = train_with(join, kNet, true, false, kReplicas);
  expect_turns(in_turns, at_once);
  EXPECT_GT(at_once.link.gradients.most, 1);
  expect_equal(*in_turns.model, *at_once.model);
}

TEST(TransfersInTurns, GiveLocalStepsTheSameBits) {
  const Make local = [](auto replicas, const Cut& cut) {
    return std::make_unique<LocalStepsLearner>(std::move(replicas), cut, kBatch, kReplicas, ExchangePeriod{.steps = 5},
                                               1);
  };
  const Trained in_turns = train_with(local, kNet, false, true, kReplicas);
  const Trained at_once = train_with(local, kNet, false, false, kReplicas);
  expect_turns(in_turns, at_once);
  expect_equal(*in_turns.model, *at_once.model);
}

TEST(TransfersInTurns, GoOnInAsynchronousTraining) {
  const Make async = [](auto replicas, const Cut& cut) {
    return std::make_unique<AsyncLearner>(std::move(replicas), cut, kBatch, kReplicas, std::nullopt, 1);
  };
  const Trained in_turns = train_with(async, kNet, true, true, 1);
  EXPECT_EQ(in_turns.link.weights.most, 1);
  EXPECT_EQ(in_turns.link.gradients.most, 1);
}

TEST(Turns, GoInTheOrderInWhichTheyWereAskedFor) {
  Turns<int> turns;
  const int a = 1;
  const int b = 2;
  const int c = 3;
  EXPECT_TRUE(turns.take(a));
  EXPECT_FALSE(turns.take(b));
  EXPECT_FALSE(turns.take(c));
  EXPECT_TRUE(turns.take(a));
  turns.end(b);  // it was lost while it waited
  turns.end(a);
  EXPECT_FALSE(turns.take(a));
  EXPECT_TRUE(turns.take(c));
  turns.end(c);
  EXPECT_TRUE(turns.take(a));
}

}  // namespace
}  // namespace convoy
