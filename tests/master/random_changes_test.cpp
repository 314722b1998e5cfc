// Trains nets drawn from seeds on slaves, under plans drawn from seeds that change in the course of the run, with all
// that a trunk is asked for in between, and compares them with one device that knows no plan.

#include <gtest/gtest.h>

#include <cstdlib>

#include "master/cluster/cluster_trunk.hpp"
#include "nets/graph/net.hpp"
#include "tests/exchange/nodes.hpp"
#include "tests/support/plain_trunk.hpp"
#include "tests/support/random_net.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/slave_threads.hpp"

namespace convoy {
namespace {

constexpr int kChangedBatch = 12;
constexpr int kDeeds = 12;
// Values of batch norms over few samples amplify what sums in another order round.
constexpr float kChangedTolerance = 5e-4F;

/// What a trunk has answered.
struct Answers {
  std::vector<Tensor> tested;
  std::vector<std::vector<ShardState>> states;  ///< and gradients
  std::vector<double> squares;
};

/// Does with a trunk what a seed says.
class Course {
 public:
  /// With `own`, the master computes, too. `change` is called where the plan changes.
  Course(Trunk& trunk, const Stages& stages, std::uint64_t seed, bool own, std::function<void()> change)
      : trunk_(trunk), stages_(stages), random_(seed, 31), own_(own), change_(std::move(change)) {}

  Answers run() {
    trunk_.load(start(stages_));
    for (deed_ = 0; deed_ < kDeeds; ++deed_) {
      switch (random_.below(8)) {
        case 0: change_(); break;
        case 1: test(); break;
        case 2:
          answers_.states.push_back(trunk_.snapshot());
          begun_ = false;  // it drops the other
          break;
        case 3: collect_gradients(); break;
        case 4:
          trunk_.begin_snapshot(true);
          begun_ = true;
          break;
        default: train();
      }
    }
    if (begun_) take_begun();
    test();
    answers_.states.push_back(trunk_.snapshot());
    return std::move(answers_);
  }

 private:
  Images images() const {
    return noise_images(input_shape(stages_[0], kChangedBatch), 3, 100 + static_cast<std::uint64_t>(deed_));
  }
  /// Gives the gradients of each part of the batch when its outputs are there, as a learner does.
  void pass(bool squares) {
    Pass pass = pass_of(deed_);
    pass.squares = squares;
    trunk_.begin(images(), pass);
    while (const auto samples = trunk_.next_outputs()) {
      std::vector<Tensor> gradients;
      for (const Tensor* output : trunk_.outputs()) gradients.push_back(gradient_of(*output, deed_));
      trunk_.backward(pointers(gradients), *samples);
    }
    if (squares) answers_.squares.push_back(trunk_.gradient_squares());
  }
  void train() {
    pass(random_.below(3) == 0);
    UpdateStep update = kSgd;
    update.gradient_scale = 0.01F;
    trunk_.update(update);
    if (begun_ && random_.below(2) == 0) take_begun();
  }
  void test() { answers_.tested.push_back(trunk_.forward(images(), {})); }
  /// Collects the gradients of a pass, as a replica does, and goes on from the weights before it.
  void collect_gradients() {
    if (begun_) take_begun();
    const std::vector<ShardState> before = trunk_.snapshot();
    pass(false);
    if (random_.below(2) == 0 || own_) trunk_.settle();
    trunk_.begin_gradients();
    take_begun();
    trunk_.load(before);
  }
  void take_begun() {
    begun_ = false;
    std::optional<std::vector<ShardState>> states = trunk_.take_snapshot();
    while (!states) {
      if (!trunk_.poll()) trunk_.wait();
      states = trunk_.take_snapshot();
    }
    answers_.states.push_back(*std::move(states));
  }

  Trunk& trunk_;
  const Stages& stages_;
  Random random_;
  bool own_;
  std::function<void()> change_;
  int deed_ = 0;
  bool begun_ = false;  ///< whether a snapshot is on its way
  Answers answers_;
};

void expect_close(const Answers& got, const Answers& expected) {
  ASSERT_EQ(got.states.size(), expected.states.size());
  for (std::size_t i = 0; i < expected.squares.size(); ++i) {
    EXPECT_NEAR(got.squares[i], expected.squares[i], 10 * kChangedTolerance * expected.squares[i]);
  }
  for (std::size_t t = 0; t < expected.tested.size(); ++t) {
    for (std::size_t i = 0; i < expected.tested[t].size(); ++i) {
      ASSERT_NEAR(got.tested[t].data()[i], expected.tested[t].data()[i], 10 * kChangedTolerance) << "test " << t;
    }
  }
  for (std::size_t i = 0; i < expected.states.size(); ++i) {
    for (std::size_t s = 0; s < expected.states[i].size(); ++s) {
      SCOPED_TRACE(fmt::format("answer {}, stage {}", i, s));
      expect_near(got.states[i][s], expected.states[i][s], kChangedTolerance);
    }
  }
}

/// Some slaves in threads, and the master.
struct Machines {
  explicit Machines(int slaves) : threads(lobby.endpoint(), slaves, {"eigen"}) {
    crew.gather(slaves, stop, [] {});
  }
  ~Machines() { crew.dismiss("the test finished"); }
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  Lobby lobby{"tcp://127.0.0.1:*", "test"};
  Crew crew{lobby};
  SlaveThreads threads;
  std::atomic<bool> stop{false};
  std::unique_ptr<Device> device = make_device("eigen", {.threads = 1});
};

void expect_equality_on_slaves(int members, bool own) {
  const char* asked = std::getenv("CONVOY_RANDOM_PLANS");
  const std::uint64_t seeds = asked != nullptr ? std::stoul(asked) : 12;
  Machines machines(members - (own ? 1 : 0));
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::string text = random_net(seed);
    const Stages stages = cut(parse_net(text, "random.yaml")).trunk;
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    PlainTrunk local(stages, input_shape(stages[0], kChangedBatch), *machines.device);
    const Answers expected = Course(local, stages, seed, own, [] {}).run();
    PlanDrawer drawer(stages, kChangedBatch, seed);
    ClusterTrunk trunk(stages, drawer.draw(members, own), machines.crew, own ? machines.device.get() : nullptr,
                       std::chrono::seconds(30));
    const auto change = [&] { trunk.change_plan(drawer.draw(members, own)); };
    expect_close(Course(trunk, stages, seed, own, change).run(), expected);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RandomChanges, OfPlansOfSlavesTrainAsOneDeviceDoes) { expect_equality_on_slaves(3, false); }

TEST(RandomChanges, OfPlansWithTheMasterTrainAsOneDeviceDoes) { expect_equality_on_slaves(3, true); }

}  // namespace
}  // namespace convoy
