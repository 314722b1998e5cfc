// Runs master and slaves over real sockets on devices that compute nothing, and counts the seconds that they would
// take.

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <list>

#include "devices/paced_device.hpp"
#include "master/cluster/cluster_trunk.hpp"
#include "master/cluster/described_machines.hpp"
#include "master/cluster/head_place.hpp"
#include "master/cluster/planning.hpp"
#include "tests/support/slave_thread.hpp"
#include "tests/support/source_folder.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;

constexpr int kPacedBatch = 8;
constexpr int kPacedSteps = 3;

/// The seconds that a device was asked to spend in a run. It spends them on a clock of sleeps alone, while it is timed.
class SpentSeconds {
 public:
  Spend spend() {
    return [this](double seconds) {
      if (!Clock::is_real()) return Clock::sleep_for(Clock::seconds(seconds));
      seconds_ += seconds;
    };
  }
  double seconds() const { return seconds_; }

 private:
  std::atomic<double> seconds_ = 0.0;  ///< the test reads it while a slave's thread may count
};

/// Batch norms, additions and several widths.
Net resnet_20() { return read_net(source_folder() + "/nets/resnet20.yaml", {"training.batch=8"}); }

struct PacedMember {
  SpentSeconds spent;
  std::unique_ptr<PacedDevice> device;
};

class PacedRuns : public testing::TestWithParam<const char*> {};

/// The planner, the devices and the nodes must agree on how long each pass takes.
TEST_P(PacedRuns, SpendWhatThePlannerPredicts) {
  const Net net = resnet_20();
  const Cut cut = convoy::cut(net);
  std::list<PacedMember> members;
  for (const char* speed : {"3", "1", "2"}) {  // GFLOP/s of the master and of two slaves
    PacedMember& member = members.emplace_back();
    member.device = std::make_unique<PacedDevice>(speed, member.spent.spend());
  }
  PacedDevice& own = *members.front().device;
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  lobby.guests().expect_paced(true);
  // Slaves keep their devices until they end; the counts outlive them.
  SpentSeconds& slow = std::next(members.begin(), 1)->spent;
  SpentSeconds& fast = std::next(members.begin(), 2)->spent;
  SlaveThread a(lobby.endpoint(), "a", std::make_unique<PacedDevice>("1", slow.spend()));
  SlaveThread b(lobby.endpoint(), "b", std::make_unique<PacedDevice>("2", fast.spend()));
  const std::atomic<bool> stop{false};
  ASSERT_TRUE(crew.gather(2, stop, [] {}));

  ClusterOptions options;
  options.slaves = 2;
  options.share = true;
  options.layout = GetParam();
  options.exchange = "ring";
  const Planned planned =
      plan_members({options, cut, kPacedBatch, own, {1, pace_of_heads(cut, kPacedBatch, own)}}, crew, {});
  EXPECT_EQ(slow.seconds() + fast.seconds(), 0.0) << "timing took real time";
  const std::vector<MemberProfile>& profiles = planned.calibration.members;
  ASSERT_EQ(profiles.size(), 3U);
  std::vector<double> predicted(3, 0.0);
  {
    const TaskGraph graph = make_task_graph(planned.plan, cut.trunk);
    const ClusterModel model = measured_cluster(planned.plan, cut.trunk, profiles, planned.calibration.master);
    for (const Task& task : graph.tasks) {
      const bool on_the_host = task.kind == TaskKind::sum || task.kind == TaskKind::filter_sum;
      if (!on_the_host) predicted.at(static_cast<std::size_t>(task.node)) += model.compute(task);
    }
  }

  ClusterTrunk trunk(cut.trunk, planned.plan, crew, &own, 60s);
  NetLearner learner(trunk, cut, kPacedBatch, {1, pace_of_heads(cut, kPacedBatch, own)});
  learner.load({std::make_shared<const ModelState>(ModelState{initial_trunk(cut, 1), initial_heads(cut, 1)})});
  const Images images = noise_images(input_shape(cut.trunk[0], kPacedBatch), 1, 1);
  const std::vector<int> labels(kPacedBatch, 3);
  for (int step = 1; step <= kPacedSteps; ++step) {
    const BatchLoss loss = train_step(learner, images, labels, {.training = true, .seed = 1, .step = step},
                                      [](double) { return UpdateStep{}; });
    EXPECT_NEAR(loss.sum, kPacedBatch * std::log(10.0), 1e-4) << "of equal outputs";
  }
  learner.settle();
  EXPECT_FALSE(learner.broken());
  crew.dismiss("the test finished");
  a.end();
  b.end();
  const std::vector<double> spent{slow.seconds(), fast.seconds(), members.front().spent.seconds()};
  for (std::size_t m = 0; m < 3; ++m) {
    EXPECT_GT(predicted[m], 0.0) << m;
    EXPECT_NEAR(spent[m], kPacedSteps * predicted[m], 1e-6 * spent[m]) << m;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, PacedRuns, testing::Values("filters", "samples", "auto"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace convoy
