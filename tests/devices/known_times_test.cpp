// Tests which times are known again: those of the same work on the same device at the same speed.

#include "devices/known_times.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "devices/registry.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

class KnownTimesTest : public testing::Test {
 protected:
  /// Returns the seconds of the work at a speed, in a process of its own; where they are measured, they are `measured`.
  double seconds_of(const std::string& work, double measured, double speed = 100.0, const std::string& device = "cpu") {
    KnownTimes known(device, folder_.path(), [&] {
      ++probes_;
      return speed;
    });
    known.of(work, 1, [&] { return KnownTimes::Seconds{measured}; });
    return known.of(work, 1, [] { return KnownTimes::Seconds{-1.0}; })[0];
  }

  TemporaryFolder folder_;
  int probes_ = 0;
};

TEST_F(KnownTimesTest, AreThoseOfTheSameWorkAtTheSameSpeed) {
  EXPECT_EQ(seconds_of("a", 0.1), 0.1);
  EXPECT_EQ(seconds_of("a", 0.2), 0.1);
  EXPECT_EQ(seconds_of("a", 0.2, 105.0), 0.1);
  EXPECT_EQ(seconds_of("b", 0.3), 0.3);
  EXPECT_EQ(seconds_of("a", 0.4, 100.0, "eigen"), 0.4);
  EXPECT_EQ(seconds_of("a", 0.5), 0.1);
  EXPECT_EQ(probes_, 6);  // one for each process
}

TEST_F(KnownTimesTest, AreMeasuredAnewAtAnotherSpeed) {
  EXPECT_EQ(seconds_of("a", 0.1), 0.1);
  EXPECT_EQ(seconds_of("a", 0.2, 80.0), 0.2);
  EXPECT_EQ(seconds_of("a", 0.3, 80.0), 0.2);
  EXPECT_EQ(seconds_of("a", 0.4, 120.0), 0.4);
}

TEST_F(KnownTimesTest, OfDamagedFilesAreMeasuredAnew) {
  double next = 0.1;
  for (const char* damage : {"", "100", "100 -1", "100 nan", "100 0.1 0.2", "100 0.1x", "nan 0.1", "-100 0.1", "x"}) {
    seconds_of("a", next);
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      std::ofstream(entry.path()) << "cpu\na\n" << damage;
    }
    next += 0.1;
    EXPECT_EQ(seconds_of("a", next), next) << damage;
  }
}

TEST_F(KnownTimesTest, WithoutAFolderAreMeasuredEachTimeAndNothingIsProbed) {
  KnownTimes known("cpu", {}, [&] {
    ++probes_;
    return 1.0;
  });
  EXPECT_EQ(known.of("a", 1, [] { return KnownTimes::Seconds{0.1}; })[0], 0.1);
  EXPECT_EQ(known.of("a", 1, [] { return KnownTimes::Seconds{0.2}; })[0], 0.2);
  EXPECT_EQ(probes_, 0);
}

TEST_F(KnownTimesTest, OfAShardAreTheSameToTheBitUnlessTheDeviceHasAnotherSpeed) {
  const auto device = make_device("reference", {.threads = 1});
  const ShardSpec spec{.stage = {.name = "c",
                                 .channels = 2,
                                 .height = 8,
                                 .width = 8,
                                 .conv = {.filters = 4, .kernel_h = 3, .kernel_w = 3}},
                       .filters = {0, 4},
                       .batch = 2};
  KnownTimes first("cpu", folder_.path(), [] { return 1.0; });
  KnownTimes second("cpu", folder_.path(), [] { return 1.0; });
  const Timing measured = time_shard(first, *device, spec, 2);
  const Timing known = time_shard(second, *device, spec, 2);
  EXPECT_GT(measured.forward, 0.0);
  EXPECT_EQ(known.filters, 4);
  EXPECT_EQ(known.forward, measured.forward);
  EXPECT_EQ(known.backward_input, measured.backward_input);
  EXPECT_EQ(known.backward_filters, measured.backward_filters);
  EXPECT_EQ(known.update, measured.update);
}

TEST(Work, IsTheSameWhereNamesAndSourcesDiffer) {
  const Stage stage{.name = "c",
                    .channels = 2,
                    .height = 8,
                    .width = 8,
                    .conv = {.filters = 4, .kernel_h = 3, .kernel_w = 3},
                    .after = {BatchNorm{.name = "n"}, Activation::relu, Pooling{}, Dropout{.rate = 0.5F, .stream = 1}}};
  Stage same = stage;
  same.name = "d";
  same.from = {{.stage = 3, .channels = {0, 2}}};
  std::get<BatchNorm>(same.after[0]).name = "m";
  std::get<Dropout>(same.after[3]).stream = 2;
  EXPECT_EQ(describe_work(same), describe_work(stage));

  const auto differs = [&](const auto& change) {
    Stage other = stage;
    change(other);
    return describe_work(other) != describe_work(stage);
  };
  EXPECT_TRUE(differs([](Stage& s) { s.height = 9; }));
  EXPECT_TRUE(differs([](Stage& s) { s.conv.stride_w = 2; }));
  EXPECT_TRUE(differs([](Stage& s) { s.conv.pad.left = 1; }));
  EXPECT_TRUE(differs([](Stage& s) { s.conv.groups = 2; }));
  EXPECT_TRUE(differs([](Stage& s) { s.moments = 2; }));
  EXPECT_TRUE(differs([](Stage& s) { s.after[1] = Activation::tanh; }));
  EXPECT_TRUE(differs([](Stage& s) { std::get<Activation>(s.after[1]).beta = 6.0F; }));
  EXPECT_TRUE(differs([](Stage& s) { s.after.pop_back(); }));
  EXPECT_TRUE(differs([](Stage& s) { std::get<Pooling>(s.after[2]).kernel_h = 3; }));
  EXPECT_TRUE(differs([](Stage& s) { std::get<Pooling>(s.after[2]).dilation_h = 2; }));
}

}  // namespace
}  // namespace convoy
