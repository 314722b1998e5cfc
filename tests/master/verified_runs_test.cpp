// Tests whole runs with --verify, and what they report.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "master/cluster/cluster_learner.hpp"
#include "master/commands/load_net.hpp"
#include "master/report/record_observers.hpp"
#include "master/report/text_observer.hpp"
#include "tests/support/memory.hpp"
#include "tests/support/process.hpp"
#include "tests/support/slave_thread.hpp"
#include "tests/support/source_folder.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kRunSeed = 11;
constexpr auto kTwice = [](float value) { return 2.0F * value; };

class Recorder : public Observer {
 public:
  Recorder(std::vector<std::string>& notices, std::vector<WrongWork>& wrong, std::function<void()> after_step)
      : notices_(notices), wrong_(wrong), after_step_(std::move(after_step)) {}
  void on_notice(const std::string& text) override { notices_.push_back(text); }
  void on_wrong_work(const WrongWork& wrong) override { wrong_.push_back(wrong); }
  void on_step(const StepReport&) override { after_step_(); }

 private:
  std::vector<std::string>& notices_;
  std::vector<WrongWork>& wrong_;
  std::function<void()> after_step_;
};

std::string written(const std::function<void(Observer&)>& tell, bool json) {
  Memory memory;
  {
    const auto observer = json ? make_json_observer(memory.stream())
                               : make_text_observer({.to = memory.stream(), .size = {}, .seconds_between = 0.0});
    tell(*observer);
  }
  return memory.text();
}

TEST(VerifiedRuns, AreReported) {
  const auto found = [](Observer& observer) {
    observer.on_wrong_work(
        {.slave = "c", .what = "maps", .stage = "conv1", .step = 7, .error = 0.5, .tolerance = 0.02});
    observer.on_wrong_work(
        {.slave = "c", .what = "maps", .stage = "conv1", .step = 7, .error = HUGE_VAL, .last_right = 6});
  };
  EXPECT_EQ(
      written(found, true),
      R"({"event":"wrong_work","slave":"c","what":"maps","stage":"conv1","step":7,"tolerance":0.02,"error":0.5})"
      "\n"
      R"({"event":"wrong_work","slave":"c","what":"maps","stage":"conv1","step":7,"tolerance":0.0,"last_right":6})"
      "\n");
  const auto end = [](long verified) {
    return [verified](Observer& observer) { observer.on_end({.how = "finished", .verified = verified}); };
  };
  EXPECT_THAT(written(end(12), true), HasSubstr(R"("verified":12)"));
  EXPECT_THAT(written(end(-1), true), Not(HasSubstr("verified")));
  EXPECT_THAT(written(end(12), false),
              HasSubstr("verified: 12 times what a slave sent was computed again and found right"));
  EXPECT_THAT(written(end(-1), false), Not(HasSubstr("verified")));
}

/// The slave c lies. The run names it, goes on with the others to its end, and does not take c back, which asks again
/// and again.
TEST(VerifiedRuns, GoOnWithoutTheLiarAndKeepItOut) {
  const NetOptions net_options{.net = source_folder() + "/nets/glyphs.yaml",
                               .set = {"conv1.filters=6", "conv2.filters=9"},
                               .device = "eigen",
                               .device_options = {.threads = 1},
                               .batch = 8,
                               .seed = kRunSeed};
  const Net net = load_net(net_options);
  const Cut trunk = cut(net);
  const DataSet data = open_data("glyphs", kRunSeed);
  const Batches batches{data, Part::training, 8, kRunSeed, net.augment};
  const Batches tests{data, Part::test, 8, kRunSeed, Augmentation{}};
  std::vector<std::string> notices;
  std::vector<WrongWork> wrong;
  Observers observers;
  std::atomic<bool> stop{false};
  std::function<void()> after_step = [] {};
  observers.push_back(std::make_unique<Recorder>(notices, wrong, [&] { after_step(); }));
  const ClusterOptions options{
      .slaves = 3, .listen = free_endpoint(), .insecure = true, .shares = "1,1,1", .verify = 1};
  SlaveThread a(options.listen, "a", honest("eigen"));
  SlaveThread b(options.listen, "b", honest("eigen"));
  SlaveThread c(options.listen, "c", liar("eigen", {Lie::About::maps, kTwice, 5}));
  const std::string refusal = "sent wrong values in this run";
  int steps = 0;
  after_step = [&] { stop = ++steps >= 60 && c.has_said(refusal); };
  const auto cluster = Cluster::assemble(options, net_options, net, trunk, observers, stop);
  ClusterLearner learner(*cluster, trunk, 8, 1e-9);
  const Training training{
      .net = net, .training = batches, .test = tests, .seed = kRunSeed, .max_steps = 20000, .stop = stop};
  const Outcome outcome = train(
      training, learner,
      {std::make_shared<const ModelState>(ModelState{initial_trunk(trunk, kRunSeed), initial_heads(trunk, kRunSeed)}),
       {}},
      observers, [](const TrainingState&) {});
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_GE(outcome.steps, 50);
  EXPECT_EQ(cluster->plan().members, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_EQ(wrong[0].slave, "c");
  EXPECT_EQ(wrong[0].what, "maps");
  EXPECT_THAT(notices, Contains(AllOf(HasSubstr("slave c sent maps of stage conv"), HasSubstr("2 slaves are left"))));
  EXPECT_GT(cluster->verified(), 40);
  cluster->dismiss("the test finished");
  EXPECT_THAT(c.end(), Contains(HasSubstr(refusal)));
}

}  // namespace
}  // namespace convoy
