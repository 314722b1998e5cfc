// Tests when members of a run are timed, and which slaves may join it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "master/cluster/cluster.hpp"
#include "master/commands/load_net.hpp"
#include "tests/support/mortal_slaves.hpp"
#include "tests/support/process.hpp"
#include "tests/support/slave_threads.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;

class Notices : public Observer {
 public:
  explicit Notices(std::vector<std::string>& texts) : texts_(texts) {}
  void on_notice(const std::string& text) override { texts_.push_back(text); }

 private:
  std::vector<std::string>& texts_;
};

/// A cluster of one slave, named a.
class OneSlave {
 public:
  explicit OneSlave(ClusterOptions options) : options_(std::move(options)) {
    options_.slaves = 1;
    options_.listen = free_endpoint();
    options_.insecure = true;
    observers_.push_back(std::make_unique<Notices>(notices_));
    slave_ = std::make_unique<SlaveThreads>(options_.listen, 1, std::vector<std::string>{"eigen"});
    cluster_ = Cluster::assemble(options_, net_options_, net_, cut_, observers_, never_);
  }
  ~OneSlave() { cluster_->dismiss("the test finished"); }
  OneSlave(const OneSlave&) = delete;
  OneSlave& operator=(const OneSlave&) = delete;

  Cluster& cluster() { return *cluster_; }
  const std::string& endpoint() const { return options_.listen; }
  const std::vector<std::string>& notices() const { return notices_; }
  /// Works until `over` returns true. Returns false where this takes too long.
  bool run_until(const std::function<bool()>& over) {
    const auto until = wire::Clock::now() + 60s;
    while (!over()) {
      if (wire::Clock::now() > until) return false;
      cluster_->trunk().snapshot();  // the trunk hears of newcomers while it speaks with its slaves
    }
    return true;
  }

 private:
  NetOptions net_options_{.net = source_folder() + "/nets/glyphs.yaml",
                          .set = {"conv1.filters=5", "conv2.filters=9"},
                          .device = "eigen",
                          .device_options = {.threads = 1},
                          .batch = 8};
  Net net_ = load_net(net_options_);
  Cut cut_ = cut(net_);
  ClusterOptions options_;
  std::vector<std::string> notices_;
  Observers observers_;
  std::atomic<bool> never_{false};
  std::unique_ptr<SlaveThreads> slave_;
  std::unique_ptr<Cluster> cluster_;
};

/// The timings of the other members are still those of the run's start.
TEST(Timings, StandWhereANewcomerIsLostWhileItIsTimed) {
  OneSlave run({.exchange = "star"});
  const std::string timed = to_json(run.cluster().calibration());
  MortalSlaves newcomer;
  newcomer.add(run.endpoint(), "late", "Calibrate", 0);
  ASSERT_TRUE(run.run_until([&] { return run.cluster().members_change(); }));
  run.cluster().regroup();
  EXPECT_THAT(run.notices(), Contains(HasSubstr("slave late is gone")));
  EXPECT_EQ(run.cluster().plan().members, std::vector<std::string>{"a"});
  EXPECT_EQ(to_json(run.cluster().calibration()), timed);
}

TEST(FixedShares, LetNoOtherSlavesIn) {
  OneSlave run({.shares = "1"});
  FakeSlave other(run.endpoint(), "nothing", [](FakeSlave&) {}, {.name = "other"});
  std::atomic<bool> stop{false};
  std::atomic<bool> refused{false};
  std::thread thread([&] {
    other.run(stop);
    refused = true;
  });
  const bool answered = run.run_until([&] { return refused.load(); });
  stop = true;
  thread.join();
  ASSERT_TRUE(answered);
  EXPECT_THAT(other.refusal(), HasSubstr("this run's shares are fixed, for other slaves"));
}

}  // namespace
}  // namespace convoy
