// Runs whose frozen convolutions are computed by slaves, once for each image, whatever becomes of the slaves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/master/recovery_run.hpp"
#include "tests/support/mortal_slaves.hpp"
#include "tests/support/slave_threads.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;

constexpr int kStepsOfAnEpoch = 4;
constexpr long kWithoutLimit = 1000000;

NetOptions frozen_glyphs() {
  NetOptions options = small_glyphs();
  options.set.insert(options.set.end(), {"conv*.freeze=true", "training.epochs=1000000"});
  return options;
}

/// What is seen of a run.
struct Seen {
  std::vector<double> bytes;  ///< the bytes that all members together sent and received, by step
  long steps = 0;
};

/// Ends a run some steps after it gave a notice.
class Watch : public Observer {
 public:
  Watch(Seen& seen, std::string notice, std::function<void()> stop)
      : seen_(seen), notice_(std::move(notice)), stop_(std::move(stop)) {}
  void on_notice(const std::string& text) override {
    if (left_ < 0 && text.find(notice_) != std::string::npos) left_ = 2 * kStepsOfAnEpoch;
  }
  void on_step(const StepReport& report) override {
    seen_.steps = report.step;
    double& bytes = seen_.bytes.emplace_back(0.0);
    for (const MemberTime& each : report.times) bytes += each.sent + each.received;
    if (left_ > 0 && --left_ == 0) stop_();
  }

 private:
  Seen& seen_;
  std::string notice_;
  std::function<void()> stop_;
  int left_ = -1;  ///< steps until the end of the run; negative before the notice
};

/// A run on the same few images in each epoch.
struct FewImages {
  explicit FewImages(ClusterOptions options, const std::string& last = "no such notice")
      : run(std::move(options), frozen_glyphs(), draw_glyphs(kSeed, 8 * kStepsOfAnEpoch, 8)) {
    run.watch(std::make_unique<Watch>(seen, last, [this] { run.stop(); }));
  }

  void expect_images_once() const {
    ASSERT_GT(seen.bytes.size(), kStepsOfAnEpoch);
    for (std::size_t step = 0; step < seen.bytes.size(); ++step) {
      EXPECT_EQ(seen.bytes[step] > 0.0, step < kStepsOfAnEpoch) << "step " << step;
    }
  }

  Seen seen;
  TrainingRun run;
};

ClusterOptions of_two(const std::string& exchange, const std::string& maps) {
  return {.slaves = 2, .shares = "1,1", .exchange = exchange, .cache_maps = maps};
}

class CachedMapsOfSlaves : public testing::TestWithParam<const char*> {};

TEST_P(CachedMapsOfSlaves, TrainToTheSameBitsAndTravelOnce) {
  constexpr long kSteps = 4 * kStepsOfAnEpoch;
  const auto train = [&](const std::string& maps, Seen& seen) {
    FewImages few(of_two(GetParam(), maps));
    const SlaveThreads slaves(few.run.endpoint(), 2, {"eigen"});
    Result result = few.run.train(kSteps, 1e-9);
    seen = few.seen;
    if (!maps.empty()) few.expect_images_once();
    return result;
  };
  Seen plain;
  Seen cached;
  const Result expected = train("", plain);
  const Result got = train("8MiB", cached);
  expect_equal(got.model, expected.model);
  EXPECT_EQ(got.progress, expected.progress);
  EXPECT_EQ(std::ranges::count(plain.bytes, 0.0), 0);
}

INSTANTIATE_TEST_SUITE_P(Exchanges, CachedMapsOfSlaves, testing::Values("star", "ring"),
                         [](const auto& info) { return std::string(info.param); });

/// The slave dies at a snapshot, when no images travel any more.
TEST(CachedMaps, OutliveASlaveThatDies) {
  constexpr int kMostSnapshots = 2 * kStepsOfAnEpoch;  // in the first epoch, of both stages
  FewImages few(of_two("star", "8MiB"), "slave mortal is gone");
  const SlaveThreads other(few.run.endpoint(), 1, {"eigen"});
  MortalSlaves mortal;
  mortal.add(few.run.endpoint(), "mortal", "Snapshot", kMostSnapshots);
  const Result result = few.run.train(kWithoutLimit, 1e-9);
  EXPECT_EQ(result.plan.members, (std::vector<std::string>{"a"}));
  few.expect_images_once();

  FewImages again(of_two("star", "8MiB"));
  const SlaveThreads same(again.run.endpoint(), 1, {"eigen"});
  MortalSlaves immortal;
  immortal.add(again.run.endpoint(), "mortal", "nothing", 0);
  const Result undisturbed = again.run.train(few.seen.steps, 1e9);
  EXPECT_EQ(result.progress, undisturbed.progress);
  expect_equal(result.model, undisturbed.model);
}

TEST(CachedMaps, StayWhenASlaveJoins) {
  FewImages few({.slaves = 1, .exchange = "ring", .cache_maps = "8MiB"}, "joins");
  const SlaveThreads first(few.run.endpoint(), 1, {"eigen"});
  MortalSlaves second;
  std::thread later([&] {
    std::this_thread::sleep_for(500ms);
    second.add(few.run.endpoint(), "late", "nothing", 0);
  });
  const Result result = few.run.train(kWithoutLimit, 1e9);
  later.join();
  EXPECT_EQ(result.plan.members, (std::vector<std::string>{"a", "late"}));
  few.expect_images_once();
}

}  // namespace
}  // namespace convoy
