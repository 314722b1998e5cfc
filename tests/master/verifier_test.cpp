// Tests --verify: slaves that send wrong values are named and dropped, honest ones on any device pass, and training is
// not changed by a bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/random.hpp"
#include "devices/registry.hpp"
#include "master/cluster/cluster_trunk.hpp"
#include "master/cluster/plan_options.hpp"
#include "nets/graph/net.hpp"
#include "tests/support/graph_net.hpp"
#include "tests/support/slave_thread.hpp"
#include "tests/support/source_folder.hpp"
#include "tests/support/states.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;

constexpr int kBatch = 4;
constexpr std::uint64_t kSeed = 11;
constexpr long kSteps = 40;

/// A net with batch norms, branches, groups and additions.
Cut branches(const std::string& optimizer = "sgd") {
  return cut(parse_net(kGraphNet, "graph.yaml", {"training.optimizer=" + optimizer}));
}
Cut glyphs(const std::string& optimizer = "sgd") {
  return cut(read_net(source_folder() + "/nets/glyphs.yaml",
                      {"conv1.filters=6", "conv2.filters=9", "training.optimizer=" + optimizer}));
}

struct Setting {
  Cut net;
  NumberType wire = NumberType::fp32;
  TrainingOptions training{.learning_rate = 0.02, .momentum = 0.9, .weight_decay = 0.001};
  int micro_batches = 1;
  int interval = 1;  ///< 0: without a verifier
  std::uint64_t seed = kSeed;
  bool room = true;  ///< whether the master's device can compile anything
};

struct Trained {
  std::vector<ShardState> trunk;
  long verified = 0;
  std::string lost;  ///< name of the slave that was lost
  std::string text;  ///< the error's
  PeerLost::Reason reason = PeerLost::Reason::gone;
  long steps = 0;
  std::vector<std::string> told;
};

class FullDevice : public Device {
 public:
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Shard> compile(const ShardSpec&) override { fail("the device's memory is full"); }
  std::unique_ptr<DeviceTensor> make_tensor(const Shape&) override { fail("the device's memory is full"); }

 private:
  DeviceInfo info_;
};

void train_some(Trunk& trunk, const Setting& setting, Trained& outcome) {
  NetLearner learner(trunk, setting.net, kBatch);
  learner.load({std::make_shared<const ModelState>(
      ModelState{initial_trunk(setting.net, setting.seed), initial_heads(setting.net, setting.seed)})});
  for (long step = 1; step <= kSteps; ++step) {
    Random random(setting.seed, 100 + static_cast<std::uint64_t>(step));
    const Images images =
        noise_images(input_shape(setting.net.trunk[0], kBatch), setting.seed, 200 + static_cast<std::uint64_t>(step));
    std::vector<int> labels(kBatch);
    for (int& label : labels) label = static_cast<int>(random.below(3));
    const TrainingOptions& options = setting.training;
    const Pass pass{.training = true, .seed = random.next(), .squares = options.clip > 0.0, .step = step};
    train_step(learner, images, labels, pass,
               [&](double norm) { return update_step(options, options.learning_rate, step, norm); });
    outcome.steps = step;
  }
  outcome.trunk = trunk.snapshot();
}

/// Trains on one slave for each device, named a, b, ...
Trained train_on(std::vector<std::unique_ptr<Device>> devices, const Setting& setting) {
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  std::vector<std::unique_ptr<SlaveThread>> slaves;
  std::vector<double> shares(devices.size(), 1.0);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    slaves.push_back(std::make_unique<SlaveThread>(lobby.endpoint(), std::string(1, static_cast<char>('a' + i)),
                                                   std::move(devices[i])));
  }
  const std::atomic<bool> stop{false};
  crew.gather(static_cast<int>(slaves.size()), stop, [] {});
  std::vector<std::string> members;
  for (const SlaveInfo& slave : crew.slaves()) members.push_back(slave.name);
  Plan plan = proportional_plan(setting.net.trunk, kBatch, members, shares);
  plan.wire = setting.wire;
  set_micro_batches(plan, setting.micro_batches);
  const std::unique_ptr<Device> own = setting.room ? honest("eigen") : std::make_unique<FullDevice>();
  Trained outcome;
  Verifier verifier(std::max(1, setting.interval), *own,
                    [&](const std::string& text) { outcome.told.push_back(text); });
  ClusterTrunk trunk(setting.net.trunk, plan, crew, nullptr, 2min);
  if (setting.interval > 0) trunk.verify_with(verifier);
  try {
    train_some(trunk, setting, outcome);
  } catch (const PeerLost& lost) {
    outcome.lost = lost.peer();
    outcome.text = lost.what();
    outcome.reason = lost.reason();
  }
  outcome.verified = verifier.verified();
  crew.dismiss("the test finished");
  return outcome;
}

template <class... Devices>
std::vector<std::unique_ptr<Device>> devices(Devices... each) {
  std::vector<std::unique_ptr<Device>> all;
  (all.push_back(std::move(each)), ...);
  return all;
}

// ---- liars ---------------------------------------------------------------------------------------------------------

struct LieCase {
  std::string name;
  Lie lie;
  std::string says;
};

void PrintTo(const LieCase& c, std::ostream* out) { *out << c.name; }

constexpr auto kDoubled = [](float value) { return 2.0F * value; };
constexpr auto kSlightly = [](float value) { return 1.2F * value; };
constexpr auto kMirrored = [](float value) { return -value; };
constexpr auto kZero = [](float) { return 0.0F; };
constexpr auto kNan = [](float) { return std::numeric_limits<float>::quiet_NaN(); };

class Liars : public testing::TestWithParam<LieCase> {};
class LiarsAtBranches : public Liars {};

/// Expects that the slave b is named, and that no step follows the step of the lie.
void expect_named(const Trained& outcome, const LieCase& c) {
  EXPECT_EQ(outcome.lost, "b") << outcome.text;
  EXPECT_EQ(outcome.reason, PeerLost::Reason::wrong);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("slave b sent " + c.says), HasSubstr("snapshots and checkpoints")));
  EXPECT_THAT(outcome.text, HasSubstr(fmt::format("in step {};", outcome.steps)));
  EXPECT_GE(outcome.steps, c.lie.from_step);
  EXPECT_GT(outcome.verified, 0) << "steps before the lie";
}

TEST_P(Liars, AreNamedOnGlyphs) {
  expect_named(train_on(devices(honest("eigen"), liar("eigen", GetParam().lie)), {.net = glyphs()}), GetParam());
}

TEST_P(LiarsAtBranches, AreNamed) {
  expect_named(train_on(devices(honest("eigen"), liar("eigen", GetParam().lie)), {.net = branches()}), GetParam());
}

TEST_P(Liars, AreNamedInSixteenBits) {
  expect_named(train_on(devices(honest("eigen"), liar("eigen", GetParam().lie)),
                        {.net = glyphs(), .wire = NumberType::bf16, .micro_batches = 2}),
               GetParam());
}

const LieCase kMapsDoubled{"MapsDoubled", {Lie::About::maps, kDoubled, 5}, "maps of stage"};
const LieCase kMapsSlightlyWrong{"MapsSlightlyWrong", {Lie::About::maps, kSlightly, 5}, "maps of stage"};
const LieCase kPartMirrored{"PartMirrored", {Lie::About::part, kMirrored, 5}, "gradients of stage"};
const LieCase kPartZero{"PartZero", {Lie::About::part, kZero, 5}, "gradients of stage"};
const LieCase kWeightsDoubled{"WeightsDoubled", {Lie::About::weights, kDoubled, 5}, ""};
const LieCase kWeightsNan{"WeightsNan", {Lie::About::weights, kNan, 5}, ""};
const LieCase kMomentsMirrored{"MomentsMirrored", {Lie::About::moments, kMirrored, 5}, "weights of stage"};

INSTANTIATE_TEST_SUITE_P(Table, Liars,
                         testing::Values(kMapsDoubled, kMapsSlightlyWrong, kPartMirrored, kPartZero, kWeightsDoubled,
                                         kWeightsNan, kMomentsMirrored),
                         [](const auto& info) { return info.param.name; });
// At a branch several stages add to each part, so parts are not compared there.
INSTANTIATE_TEST_SUITE_P(Table, LiarsAtBranches,
                         testing::Values(kMapsDoubled, kMapsSlightlyWrong, kWeightsDoubled, kWeightsNan,
                                         kMomentsMirrored),
                         [](const auto& info) { return info.param.name; });

/// NaN spreads to everybody's values within a step, so the liar is named only if it is drawn in the first step of the
/// lie. Nobody else is ever named.
TEST(Verifying, NamesWhoeverSendsNanFirstAndNobodyElse) {
  for (const Lie::About about : {Lie::About::maps, Lie::About::part}) {
    int named = 0;
    for (const int from : {2, 3, 6}) {
      const Trained trained = train_on(devices(honest("eigen"), liar("eigen", {about, kNan, from})), {.net = glyphs()});
      if (trained.lost.empty()) continue;
      ++named;
      EXPECT_EQ(trained.lost, "b") << trained.text;
      EXPECT_THAT(trained.text, HasSubstr("NaN or infinite but should be finite in step " + std::to_string(from)));
    }
    EXPECT_GT(named, 0);
  }
}

/// Without the verifier, the same slave is trained with to the end.
TEST(Verifying, IsWhatNamesALiar) {
  const Trained outcome = train_on(devices(honest("eigen"), liar("eigen", {Lie::About::maps, kSlightly, 5})),
                                   {.net = glyphs(), .interval = 0});
  EXPECT_EQ(outcome.lost, "");
  EXPECT_EQ(outcome.steps, kSteps);
}

// ---- honest slaves -------------------------------------------------------------------------------------------------

struct HonestCase {
  std::string name;
  std::vector<std::string> devices;
  NumberType wire;
  bool adam;
  double clip;
};

void PrintTo(const HonestCase& c, std::ostream* out) { *out << c.name; }

class HonestSlaves : public testing::TestWithParam<HonestCase> {};

void expect_pass(const HonestCase& c, const Cut& net) {
  std::vector<std::unique_ptr<Device>> all;
  for (const std::string& name : c.devices) {
    for (const DeviceRow& row : list_devices()) {
      if (name.starts_with(row.name) && !row.unusable.empty()) GTEST_SKIP() << row.name << ": " << row.unusable;
    }
    all.push_back(honest(name));
  }
  Setting setting{.net = net, .wire = c.wire};
  setting.training.clip = c.clip;
  if (c.adam) setting.training = {.optimizer = Optimizer::adam, .learning_rate = 0.002, .momentum = 0.9};
  const Trained outcome = train_on(std::move(all), setting);
  EXPECT_EQ(outcome.text, "");
  EXPECT_GE(outcome.verified, kSteps - 2) << "a rare rounding may be looked at twice";
}

TEST_P(HonestSlaves, PassOnGlyphs) { expect_pass(GetParam(), glyphs(GetParam().adam ? "adam" : "sgd")); }
TEST_P(HonestSlaves, PassOnANetWithBatchNormAndBranches) {
  expect_pass(GetParam(), branches(GetParam().adam ? "adam" : "sgd"));
}

INSTANTIATE_TEST_SUITE_P(
    Table, HonestSlaves,
    testing::Values(HonestCase{"Reference", {"reference", "reference"}, NumberType::fp32, false, 0.0},
                    HonestCase{"Cpu", {"cpu", "cpu"}, NumberType::fp32, false, 0.1},
                    HonestCase{"OpenCl", {"opencl:0", "reference"}, NumberType::fp32, false, 0.0},
                    HonestCase{"Bf16", {"reference", "cpu"}, NumberType::bf16, false, 0.0},
                    HonestCase{"Fp16", {"cpu", "eigen"}, NumberType::fp16, false, 0.0},
                    HonestCase{"Int8", {"reference", "cpu"}, NumberType::int8, false, 0.0},
                    HonestCase{"Adam", {"reference", "cpu", "eigen"}, NumberType::fp32, true, 0.0},
                    HonestCase{"AdamInBf16", {"reference", "cpu"}, NumberType::bf16, true, 0.0}),
    [](const auto& info) { return info.param.name; });

/// A slave reads its own maps before they are rounded for the wire, and the master reads them after. In so small a net
/// one gradient that takes another way through a pooling window is a large part of all.
TEST(Verifying, NeverNamesAnHonestSlaveForARounding) {
  long verified = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const Trained outcome =
        train_on(devices(honest("eigen"), honest("eigen")), {.net = glyphs(), .wire = NumberType::bf16, .seed = seed});
    ASSERT_EQ(outcome.text, "") << "seed " << seed;
    verified += outcome.verified;
  }
  EXPECT_GE(verified, 4 * kSteps - 4);
}

TEST(Verifying, ChangesNoBit) {
  const auto two = [] { return devices(honest("eigen"), honest("eigen")); };
  const Trained with = train_on(two(), {.net = branches(), .interval = 3});
  const Trained without = train_on(two(), {.net = branches(), .interval = 0});
  EXPECT_EQ(with.verified, kSteps / 3);
  ASSERT_EQ(with.trunk.size(), without.trunk.size());
  for (std::size_t s = 0; s < with.trunk.size(); ++s) EXPECT_TRUE(same_bits(with.trunk[s], without.trunk[s]));
}

/// Filters that the master has no room for are named once, and the run goes on.
TEST(Verifying, SaysWhichTilesTheMasterCannotHold) {
  const Trained trained = train_on(devices(honest("eigen"), honest("eigen")), {.net = glyphs(), .room = false});
  EXPECT_EQ(trained.lost, "") << trained.text;
  EXPECT_EQ(trained.steps, kSteps);
  EXPECT_EQ(trained.verified, 0);
  ASSERT_EQ(trained.told.size(), 4U) << "two stages on two slaves";
  EXPECT_THAT(trained.told, Each(AllOf(HasSubstr("will not be checked"), HasSubstr("the device's memory is full"))));
  EXPECT_THAT(trained.told, Contains(HasSubstr("the filters 0 to 2 of stage conv1 on slave")));
}

TEST(Verifying, FindsTilesOfAllSlavesButOnlyWhatPassesThroughTheMaster) {
  const Cut net = glyphs();
  const auto tiles_for = [&](const std::vector<std::string>& members, Exchange exchange) {
    Plan plan = proportional_plan(net.trunk, kBatch, members, std::vector<double>(members.size(), 1.0));
    plan.exchange = exchange;
    return verifiable_tiles(plan, net.trunk, make_task_graph(plan, net.trunk));
  };
  const auto two = tiles_for({"a", "b"}, Exchange::star);
  ASSERT_EQ(two.size(), 4U);
  for (const VerifiableTile& tile : two) {
    EXPECT_FALSE(tile.maps.empty());
    EXPECT_FALSE(tile.gradients.empty());
    EXPECT_EQ(tile.parts.empty(), tile.stage == 0) << "images have no gradient";
  }
  // The only slave keeps the maps between its stages.
  EXPECT_TRUE(tiles_for({"a"}, Exchange::star).empty());
  EXPECT_TRUE(tiles_for({"a", "b"}, Exchange::ring).empty());
  EXPECT_TRUE(tiles_for({"a", "b"}, Exchange::thesis).empty());
}

// ---- options ----------------------------------------------------------------------------------------------

TEST(Verifying, NeedsAStar) {
  const auto wish = [](const ClusterOptions& options) { return wishes_of(options, kBatch).exchange; };
  EXPECT_EQ(wish({.slaves = 2, .verify = 5}), Exchange::star);
  EXPECT_EQ(wish({.slaves = 2, .exchange = "star", .verify = 5}), Exchange::star);
  EXPECT_EQ(wish({.slaves = 2}), std::nullopt);
  for (const ClusterOptions& options : {ClusterOptions{.slaves = 2, .exchange = "ring", .verify = 5},
                                        ClusterOptions{.slaves = 2, .plan = "thesis", .verify = 5}}) {
    try {
      wishes_of(options, kBatch);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("--verify needs the exchange star"));
    }
  }
}

}  // namespace
}  // namespace convoy
