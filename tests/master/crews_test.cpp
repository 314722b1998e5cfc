// Several crews of slaves under one lobby: they train at the same time, and what befalls one does not touch another.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "master/cluster/cluster_trunk.hpp"
#include "model/heads.hpp"
#include "tests/support/fake_slave.hpp"
#include "tests/support/slave_threads.hpp"
#include "tests/support/states.hpp"
#include "train/local_trunk.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr int kCrewBatch = 4;
constexpr int kCrewSteps = 5;

/// A convolution whose maps nobody reads: the test takes them for their own gradient.
Cut small_trunk() {
  Cut cut;
  cut.trunk = {{.name = "conv1",
                .channels = 2,
                .height = 7,
                .width = 6,
                .conv = {.filters = 5, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
                .after = {Activation::relu}}};
  return cut;
}

Images some_images(const Cut& cut) { return noise_images(input_shape(cut.trunk[0], kCrewBatch), 1, 1); }

/// One step of all trunks, of which none waits for another.
void step(const std::vector<Trunk*>& trunks, const Images& images) {
  for (Trunk* trunk : trunks) trunk->begin(images, {.training = true});
  std::vector<Trunk*> left = trunks;
  while (!left.empty()) {
    bool worked = false;
    for (Trunk* trunk : std::vector<Trunk*>(left)) {
      if (!trunk->outputs_ready()) {
        worked = trunk->poll() || worked;
      } else if (const auto samples = trunk->next_outputs()) {
        trunk->backward(trunk->outputs(), *samples);
        worked = true;
      } else {
        trunk->update({.learning_rate = 0.01F});
        std::erase(left, trunk);
        worked = true;
      }
    }
    if (!worked) left.front()->wait();
  }
}

std::vector<std::string> names_of(const Crew& crew) {
  std::vector<std::string> names;
  for (const SlaveInfo& slave : crew.slaves()) names.push_back(slave.name);
  return names;
}

TEST(Crews, TrainAtTheSameTimeUnderOneLobby) {
  const Cut cut = small_trunk();
  const std::vector<ShardState> start = initial_trunk(cut, 3);
  const Images images = some_images(cut);
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew one(lobby);
  Crew other(lobby);
  const SlaveThreads threads(lobby.endpoint(), 4, {"eigen"});
  const std::atomic<bool> stop{false};
  ASSERT_TRUE(one.gather(4, stop, [] {}));
  one.hand_over("a", other);
  one.hand_over("c", other);
  EXPECT_THAT(names_of(one), testing::ElementsAre("b", "d"));
  EXPECT_THAT(names_of(other), testing::ElementsAre("a", "c"));

  ClusterTrunk first(cut.trunk, proportional_plan(cut.trunk, kCrewBatch, {"b", "d"}, {2, 3}), one, nullptr, 20s);
  ClusterTrunk second(cut.trunk, proportional_plan(cut.trunk, kCrewBatch, {"a", "c"}, {2, 3}), other, nullptr, 20s);
  const auto device = make_device("eigen", {.threads = 1});
  LocalTrunk local(cut.trunk, images.shape(), *device);
  const std::vector<Trunk*> trunks{&first, &second, &local};
  for (Trunk* trunk : trunks) trunk->load(start);
  for (int i = 0; i < kCrewSteps; ++i) step(trunks, images);
  const std::vector<ShardState> got = first.snapshot();
  EXPECT_TRUE(same_bits(got[0], second.snapshot()[0]));
  EXPECT_FALSE(same_bits(got[0], start[0])) << "the steps must change something";
  const auto weights = got[0].weights().span();
  const std::vector<ShardState> expected = local.snapshot();
  for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], expected[0].weights().span()[i], 1e-5);
  one.dismiss("the test finished");
  other.dismiss("the test finished");
}

/// The slave that fails says so while the other crew is served.
TEST(Crews, LoseTheirOwnSlavesOnly) {
  const Cut cut = small_trunk();
  const Images images = some_images(cut);
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew one(lobby);
  Crew other(lobby);
  FakeSlave bad(lobby.endpoint(), "Step", [](FakeSlave& slave) { slave.send(wire::Failed{"the disk melted"}); });
  std::atomic<bool> stop{false};
  std::thread evil([&] { bad.run(stop); });
  const SlaveThreads threads(lobby.endpoint(), 1, {"eigen"});
  ASSERT_TRUE(one.gather(2, stop, [] {}));
  one.hand_over("a", other);
  ClusterTrunk first(cut.trunk, proportional_plan(cut.trunk, kCrewBatch, {"evil"}, {1}), one, nullptr, 20s);
  ClusterTrunk second(cut.trunk, proportional_plan(cut.trunk, kCrewBatch, {"a"}, {1}), other, nullptr, 20s);
  second.load(initial_trunk(cut, 3));
  first.begin(images, {.training = true});
  for (int i = 0; i < kCrewSteps; ++i) step({&second}, images);
  second.settle();
  try {
    first.settle();
    ADD_FAILURE() << "nothing was lost";
  } catch (const PeerLost& lost) {
    EXPECT_EQ(lost.peer(), "evil");
    EXPECT_THAT(lost.what(), HasSubstr("the disk melted"));
  }
  step({&second}, images);
  EXPECT_FALSE(second.broken());
  one.dismiss("the test finished");
  other.dismiss("the test finished");
  stop = true;
  evil.join();
}

}  // namespace
}  // namespace convoy
