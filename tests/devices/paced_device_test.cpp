// Tests the device that computes nothing and takes the time of computing.

#include "devices/paced_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "core/files.hpp"
#include "devices/calibrate.hpp"
#include "devices/registry.hpp"
#include "tests/support/host_shard.hpp"
#include "tests/support/process.hpp"
#include "tests/support/stage_cases.hpp"

namespace convoy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// 2 * 8 * 8 * 3 * 3 * 3 * 16 = 55296 floating-point operations for each image and pass.
Stage stage() {
  return {.name = "conv1",
          .channels = 3,
          .height = 8,
          .width = 8,
          .conv = {.filters = 16, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
          .after = {Activation::relu}};
}

/// A calibration of batches of 8, in which passes have a part that each call takes.
Calibration calibration() {
  const Timing half{8, 1.0, 2.0, 3.0, 4.0, 0.5, 0.25};
  const Timing whole{16, 2.0, 4.0, 6.0, 8.0, 1.0, 0.5};
  Calibration made{.batch = 8, .stages = {"conv1"}, .master = {.head = {0.5, 0.25, 4.0}, .host = {}, .card = {}}};
  made.members.push_back({.name = "a", .filter_block = 8, .stages = {{half, whole}}});
  made.members.push_back({.name = "b", .stages = {{half.times(2.0), whole.times(2.0)}}});
  made.members.push_back({.name = "idle", .stages = {{}}});
  return made;
}

/// What a device was asked to spend.
class Spent {
 public:
  Spend spend() {
    return [this](double seconds) { seconds_.push_back(seconds); };
  }
  std::vector<double> take() { return std::exchange(seconds_, {}); }

 private:
  std::vector<double> seconds_;
};

class PacedDevices : public testing::Test {
 protected:
  /// The name of a file with the calibration.
  std::string file() {
    const std::string name = folder_.path() + "/calibration.json";
    write_text(name, to_json(calibration()));
    return name;
  }
  /// The passes of a shard of half the filters, with 4 samples in two micro-batches.
  std::vector<double> passes(const std::string& profile) {
    PacedDevice device(profile, spent_.spend());
    const ShardSpec spec{.stage = stage(), .filters = {8, 8}, .batch = 4, .micro_batches = 2};
    const auto shard = device.compile(spec);
    EXPECT_EQ(spent_.take(), std::vector<double>()) << "compiling takes no time";
    const auto input = shard->make_input();
    const auto gradient = shard->make_output_gradient();
    shard->forward(*input, {.training = true});
    shard->backward(*gradient);
    shard->update({});
    return spent_.take();
  }

  Spent spent_;
  TemporaryFolder folder_;
};

TEST_F(PacedDevices, TakeTheOperationsOfAPassOverTheirSpeed) {
  const double each = 2 * 55296.0 / 2 / 1e9 / 0.5;  // two samples, half of the filters, 0.5 GFLOP/s
  EXPECT_THAT(passes("0.5"), ElementsAre(testing::DoubleEq(each), testing::DoubleEq(each), testing::DoubleEq(each),
                                         testing::DoubleEq(each), testing::DoubleEq(2 * each), 0.0));
}

TEST_F(PacedDevices, TakeTheTimesOfACalibration) {
  // Of 4 samples instead of 8. What does not depend on the batch comes with each micro-batch.
  EXPECT_THAT(passes(file()), ElementsAre(0.625, 0.625, 0.6875, 0.6875, 1.5, 4.0));
  EXPECT_THAT(passes(file() + "#b"), ElementsAre(1.25, 1.25, 1.375, 1.375, 3.0, 8.0));
}

TEST_F(PacedDevices, HaveTheTimesOfHeads) {
  const HeadTimes described = PaceProfile("2").heads(1e9, 10);
  EXPECT_DOUBLE_EQ(described.pass(3), 3.0);
  EXPECT_DOUBLE_EQ(described.update, 5.0);
  const HeadTimes timed = PaceProfile(file()).heads(1e9, 16);
  EXPECT_DOUBLE_EQ(timed.pass(2), 1.0);
  EXPECT_DOUBLE_EQ(timed.update, 8.0);
}

/// At this speed a pass takes weeks.
TEST_F(PacedDevices, AreTimedWithoutWaiting) {
  const auto device = make_device("paced:1e-10", {});
  const Timing timed = time_shard(*device, {.stage = stage(), .filters = {0, 16}, .batch = 4}, 5);
  const Timing known = timing_at(1e-10, 1.0, stage(), 16, 4, true);
  EXPECT_NEAR(timed.forward, known.forward, 1e-9 * known.forward);
  EXPECT_NEAR(timed.backward_input, known.backward_input, 1e-9 * known.forward);
  EXPECT_NEAR(timed.backward_filters, known.backward_filters, 1e-9 * known.forward);
  EXPECT_EQ(timed.update, 0.0);
  EXPECT_TRUE(Clock::is_real());
  EXPECT_TRUE(time_host(device->info()).spare) << "traffic costs a paced machine no computing";
}

/// NaN would raise false alarms.
TEST_F(PacedDevices, GiveFiniteNumbersOfTheRightShapes) {
  PacedDevice device("1e6", spent_.spend());
  for (const StageCase& each : stage_cases()) {
    HostShard shard(device, each.spec);
    shard.connect(random_added(each.spec));
    Tensor nan(shard.input_shape(), std::numeric_limits<float>::quiet_NaN());
    Tensor nan_gradient(shard.output_shape(), std::numeric_limits<float>::quiet_NaN());
    shard.forward_and_backward(nan.span(), nan_gradient.span(), {.training = true});
    EXPECT_TRUE(all_finite(shard.output().span())) << each.name;
    EXPECT_TRUE(all_finite(shard.input_gradient().span())) << each.name;
    for (const Tensor& gradient : shard.added_gradients()) EXPECT_TRUE(all_finite(gradient.span())) << each.name;
    shard.shard().update({});
    EXPECT_TRUE(shard.shard().finite());
    const ShardState state = shard.shard().state();
    const std::vector<Tensor> gradients = shard.shard().gradients();
    const std::vector<ParameterSpec> parameters = parameters_of(each.spec.stage, each.spec.filters.count);
    ASSERT_EQ(state.parameters.size(), parameters.size()) << each.name;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      EXPECT_EQ(state.parameters[p].value.shape(), parameters[p].shape) << each.name;
      EXPECT_EQ(gradients[p].size(), parameters[p].trained ? parameters[p].shape.size() : 0) << each.name;
    }
    const auto channels = static_cast<std::size_t>(each.spec.filters.count);
    EXPECT_EQ(shard.shard().moments().size(), 2 * channels);
    EXPECT_TRUE(all_finite<float>(shard.shard().moments()));
  }
}

TEST_F(PacedDevices, SayWhatIsWrongWithTheirProfiles) {
  const auto expect_refusal = [](const std::string& name, const std::string& why) {
    EXPECT_THAT([&] { make_device(name, {}); }, testing::ThrowsMessage<Error>(HasSubstr(why))) << name;
  };
  expect_refusal("paced:", "a profile is missing");
  for (const char* speed : {"0", "-1", "inf", "nan", "1e10"}) {
    expect_refusal(std::string("paced:") + speed, "above 0 and at most 1000000000");
  }
  expect_refusal("paced:nowhere.json", "nowhere.json");
  expect_refusal("paced:" + file() + "#c", "no member 'c'; its members are a, b, idle");
  expect_refusal("check:paced:1,cpu", "computes nothing that could be checked");
  EXPECT_THAT([] { make_device("paced:1", {.bf16 = true}); },
              testing::ThrowsMessage<Error>(HasSubstr("cannot compute in bfloat16")));
  Stage other = stage();
  other.name = "conv9";
  EXPECT_THAT(
      [&] {
        PacedDevice(file()).compile({.stage = other, .filters = {0, 16}});
      },
      testing::ThrowsMessage<Error>(HasSubstr("not timed for stage conv9")));
  EXPECT_THAT(
      [&] {
        PacedDevice(file() + "#idle").compile({.stage = stage(), .filters = {0, 16}});
      },
      testing::ThrowsMessage<Error>(HasSubstr("not timed for stage conv1")));
}

}  // namespace
}  // namespace convoy
