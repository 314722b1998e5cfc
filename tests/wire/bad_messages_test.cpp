// Tests that messages with impossible values are refused, each with its reason.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/wire/samples.hpp"

namespace convoy::wire {
namespace {

using testing::HasSubstr;

struct BadMessage {
  std::string name;
  Message message;
  std::string expected;
};

void PrintTo(const BadMessage& bad, std::ostream* out) { *out << bad.name; }

Message calibrate(const std::function<void(Calibrate&)>& change) {
  Calibrate message{sample_stage(), 5, 8, true, 3};
  change(message);
  return message;
}

Message assign(const std::function<void(Assign&)>& change) {
  Assign message = sample_assign();
  change(message);
  return message;
}

Message step_with(const std::vector<ChannelScale>& scales) { return Step{1, {.pass = Pass{}, .scales = scales}}; }

class BadMessages : public testing::TestWithParam<BadMessage> {};

TEST_P(BadMessages, AreRefused) {
  try {
    decode(encode(GetParam().message));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().expected));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadMessages,
    testing::Values(
        BadMessage{"NamelessHello", Hello{.name = ""}, "the Hello has no name"},
        BadMessage{"LongName", Hello{.name = std::string(5000, 'x')}, "the name has 5000 bytes"},
        BadMessage{"ManyCapabilities", Hello{.name = "a", .capabilities = std::vector<std::string>(65)},
                   "65 capabilities"},
        BadMessage{"NoThreads", Hello{.name = "a", .threads = 0}, "threads 0"},
        BadMessage{"FilterBlock", Hello{.name = "a", .filter_block = 0}, "filter block 0"},
        BadMessage{"LongReason", Bye{std::string(4097, 'x')}, "the reason has 4097 bytes"},
        BadMessage{"StageWithoutChannels", calibrate([](Calibrate& m) { m.stage.channels = 0; }), "stage conv1"},
        BadMessage{"HugeStage", calibrate([](Calibrate& m) { m.stage.height = 1 << 30; }), "stage conv1"},
        BadMessage{"KernelDoesNotFit", calibrate([](Calibrate& m) { m.stage.conv.kernel_h = 100; }), "does not fit"},
        BadMessage{"PadNotSmaller", calibrate([](Calibrate& m) { m.stage.conv.pad.top = 5; }), "padding"},
        BadMessage{"ZeroDilation", calibrate([](Calibrate& m) { m.stage.conv.dilation_h = 0; }), "the dilation 0"},
        BadMessage{"HugeDilation", calibrate([](Calibrate& m) { m.stage.conv.dilation_w = 1 << 30; }), "the dilation"},
        BadMessage{"DilatedAverage", calibrate([](Calibrate& m) {
                     m.stage.after = {Pooling{.kind = PoolKind::average, .pad = {}, .dilation_h = 2}};
                   }),
                   "only max pooling"},
        BadMessage{"PoolingOfPadding", calibrate([](Calibrate& m) {
                     m.stage = stage_without_weights("pool", StageKind::channels, 6, 2, 2);
                     m.stage.after = {Pooling{.pad = {1, 0, 5, 0}, .dilation_h = 6, .dilation_w = 1}};
                   }),
                   "has no element"},
        BadMessage{"NormOfNoGroups", calibrate([](Calibrate& m) {
                     m.stage = stage_without_weights("norm", StageKind::group_norm, 6, 2, 2);
                     m.stage.group_norm.groups = 0;
                   }),
                   "normalised in 0 equal groups"},
        BadMessage{"ResizedToHugeMaps", calibrate([](Calibrate& m) {
                     m.stage = stage_without_weights("up", StageKind::resize, 6, 2, 2);
                     m.stage.resizing.rows.extent = 1 << 30;
                   }),
                   "cannot be resized to"},
        BadMessage{"ResizedByNan", calibrate([](Calibrate& m) {
                     m.stage = stage_without_weights("up", StageKind::resize, 6, 2, 2);
                     m.stage.resizing.columns.step = NAN;
                   }),
                   "cannot be resized by steps"},
        BadMessage{"SpreadBeyondTheMaps", calibrate([](Calibrate& m) {
                     m.stage = stage_without_weights("up", StageKind::resize, 6, 2, 2);
                     m.stage.resizing = {Resizing::Mode::spread, {2, 2.0, 0.0}, {3, 2.0, 0.0}};
                   }),
                   "cannot be spread"},
        BadMessage{"UnknownResizing", calibrate([](Calibrate& m) {
                     m.stage = stage_without_weights("up", StageKind::resize, 6, 2, 2);
                     m.stage.resizing.mode = static_cast<Resizing::Mode>(3);
                   }),
                   "mode of resizing"},
        BadMessage{"ZeroStride", calibrate([](Calibrate& m) { m.stage.conv.stride_w = 0; }), "stride"},
        BadMessage{"ManyLayers", calibrate([](Calibrate& m) { m.stage.after.assign(65, Activation::relu); }),
                   "65 layers"},
        BadMessage{"DropoutRate", calibrate([](Calibrate& m) {
                     m.stage.after = {Dropout{1.0F, 0}};
                   }),
                   "dropout rate"},
        BadMessage{"DropoutNan", calibrate([](Calibrate& m) {
                     m.stage.after = {Dropout{NAN, 0}};
                   }),
                   "dropout rate"},
        BadMessage{"ClipNan", calibrate([](Calibrate& m) {
                     m.stage.after = {Activation{Activation::Kind::clip, NAN, 6.0F}};
                   }),
                   "the lower limit must be below the upper"},
        BadMessage{"EluBelowZero", calibrate([](Calibrate& m) {
                     m.stage.after = {Activation{Activation::Kind::elu, -1.0F}};
                   }),
                   "it must be at least 0"},
        BadMessage{"HugeHardSigmoid", calibrate([](Calibrate& m) {
                     m.stage.after = {Activation{Activation::Kind::hard_sigmoid, 0.2F, INFINITY}};
                   }),
                   "between -1000 and 1000"},
        BadMessage{"UnknownActivation",
                   calibrate([](Calibrate& m) { m.stage.after = {Activation{static_cast<Activation::Kind>(15)}}; }),
                   "activation kind 15"},
        BadMessage{"TooManyFilters", calibrate([](Calibrate& m) { m.filters = 8; }), "filters 8"},
        BadMessage{"NoBatch", calibrate([](Calibrate& m) { m.batch = 0; }), "batch 0"},
        BadMessage{"ManyRepeats", calibrate([](Calibrate& m) { m.repeats = 1000; }), "repeats 1000"},
        BadMessage{"Uncovered", assign([](Assign& m) { m.plan.stages[0].rows[0].shards.pop_back(); }), "stage conv1"},
        BadMessage{"RowsApart", assign([](Assign& m) { m.plan.stages[1].rows[1].samples.first = 4; }),
                   "rows must follow one another"},
        BadMessage{"HugeRow", assign([](Assign& m) { m.plan.stages[1].rows[1].samples.count = 1 << 20; }),
                   "sample count"},
        BadMessage{"NoOwners", assign([](Assign& m) { m.plan.stages[1].owners.clear(); }), "has no owners"},
        BadMessage{"NegativeFilter", assign([](Assign& m) { m.plan.stages[0].rows[0].shards[0].filters.first = -1; }),
                   "first filter 4294967295"},
        BadMessage{"ManyMembers", assign([](Assign& m) { m.plan.members.resize(1025); }), "1025 members"},
        BadMessage{"NumberType", assign([](Assign& m) { m.plan.wire = static_cast<NumberType>(4); }), "number type 4"},
        BadMessage{"Exchange", assign([](Assign& m) { m.plan.exchange = static_cast<Exchange>(3); }), "exchange 3"},
        BadMessage{"MicroBatches", assign([](Assign& m) { m.plan.micro_batches = 0; }), "micro-batches 0"},
        BadMessage{"TornTrunk", assign([](Assign& m) { m.trunk[1].height += 1; }), "stage conv2 cannot read channels"},
        BadMessage{"ManyUnequal", assign([](Assign& m) { m.plan.unequal.assign(1025, 0); }),
                   "1025 members are unequal"},
        BadMessage{"Unequal", assign([](Assign& m) { m.plan.unequal = {2}; }), "\"unequal\" names member 2"},
        BadMessage{"Node", assign([](Assign& m) { m.node = 2; }), "for node 2, but the plan has 2 members"},
        BadMessage{"LongToken", assign([](Assign& m) { m.token.assign(65, 'x'); }), "the token has 65 bytes"},
        BadMessage{"LargeBatch", assign([](Assign& m) { m.plan.batch = 65537; }), "batch 65537"},
        BadMessage{"StepZero", Step{0, {.pass = Pass{}}}, "number 0"},
        BadMessage{"EmptyStep", Step{1, {}}, "neither an update nor a pass"},
        BadMessage{"UpdateBeforeATest", Step{1, {.update = UpdateStep{}, .pass = Pass{}}}, "an update before a test"},
        BadMessage{"MeanThatIsNoNumber", step_with({{NAN, 1.0}}), "channel 0 of the images has mean nan"},
        BadMessage{"InfiniteMean", step_with({{INFINITY, 1.0}}), "channel 0 of the images has mean inf"},
        BadMessage{"HugeMean", step_with({{1e300, 1.0}}), "channel 0 of the images has mean 1e+300"},
        BadMessage{"NoDeviation", step_with({{0.5, 0.25}, {0.5, 0.0}}), "channel 1 of the images has mean 0.5 and dev"},
        BadMessage{"NegativeDeviation", step_with({{0.5, -0.25}}), "and deviation -0.25"},
        BadMessage{"DeviationThatIsNoNumber", step_with({{0.5, NAN}}), "and deviation nan"},
        BadMessage{"InfiniteDeviation", step_with({{0.5, INFINITY}}), "and deviation inf"},
        BadMessage{"TinyDeviation", step_with({{0.5, 1e-300}}), "normalised pixels must be finite"},
        BadMessage{"ManyScales", step_with(std::vector<ChannelScale>(1025)), "the images have 1025 channels"},
        BadMessage{"MemoryFactor", Hello{.name = "a", .memory_factor = 0.5}, "memory factor 0.5 is outside 1 to 100"},
        BadMessage{"PeerPort", Hello{.name = "a", .peer_port = 65536}, "peer port 65536"},
        BadMessage{"StageIndex", Load{4096, {0, 1}, {}}, "stage index 4096"},
        BadMessage{"NoFilters", Load{1, {2, 0}, {}}, "filter count 0"},
        BadMessage{"NoOriginals", Originals{}, "the Originals has no hashes"},
        BadMessage{"ManyOriginals", Originals{.contents = std::vector<Content>(kMostOriginals + 1)},
                   "or more than 16384"},
        BadMessage{"OriginalsOfAHugeTask", Originals{.task = ~0U, .contents = {{}}}, "task"},
        BadMessage{"ViewsOfOtherImages", Originals{.contents = {{}, {}}, .views = {{}}, .fill = {0}},
                   "1 views of 2 images"},
        BadMessage{"AViewFarAway", Originals{.contents = {{}}, .views = {{.down = 1 << 30}}, .fill = {0}},
                   "rows of a view"},
        BadMessage{"ViewsWithoutAnOutside", Originals{.contents = {{}}, .views = {{}}},
                   "no pixel for the outside of images"},
        BadMessage{"MissingInDisorder", Missing{1, 0, {3, 3}}, "sample 3 follows sample 3"},
        BadMessage{"BlocksInDisorder", Wanted{0, {3, 2}}, "block 2 follows block 3"},
        BadMessage{"StateInEightBits", Snapshot{1, {0, 1}, true, NumberType::int8}, "number type of a state 3"},
        BadMessage{"LoadInEightBits", Load{1, {0, 1}, {}, NumberType::int8}, "number type of a state 3"},
        BadMessage{"NegativeFirst", Snapshot{1, {-1, 1}}, "first filter"},
        BadMessage{"InfiniteRate", Step{1, {.update = UpdateStep{.learning_rate = INFINITY}}},
                   "learning rate is not finite"},
        BadMessage{"NegativeTime", Done{-1.0, 0.0, 0.0, {}}, "compute -1"},
        BadMessage{"NegativeEnergy", Done{.energy = MachineEnergy{.wait = -1.0}}, "energy of waiting -1"},
        BadMessage{"NegativeSecondsOfEnergy", Done{.energy = MachineEnergy{.wait_seconds = -1.0}},
                   "seconds of waiting -1"},
        BadMessage{"EndlessEnergy", Done{.energy = MachineEnergy{.compute = INFINITY}}, "energy of computing inf"},
        BadMessage{"EnergyThatIsNoNumber", Done{.energy = MachineEnergy{.error = NAN}}, "error of energy nan"},
        BadMessage{"NegativeRefresh", Done{.energy = MachineEnergy{.refresh = -1.0}}, "refresh of a meter -1"},
        BadMessage{"EndlessGaps", Done{.energy = MachineEnergy{.gap_seconds = INFINITY}}, "seconds in gaps inf"},
        BadMessage{"LongRefusal", Done{.energy = MachineEnergy{.refusal = std::string(5000, 'x')}},
                   "the refusal has 5000 bytes"},
        BadMessage{"BrokenStage", Done{0.0, 0.0, 0.0, {}, {4096}}, "stage index 4096"},
        BadMessage{"NanTime", Calibrated{NAN}, "forward"},
        BadMessage{"Task", Piece{1, 0xFFFFFFFF, 0}, "task 4294967295"},
        BadMessage{"FirstValue", Piece{1, 0, std::uint64_t{1} << 60}, "first value"},
        BadMessage{"LongProbe", Probe{1025}, "pieces 1025"}, BadMessage{"NoMemory", Probed{{0.0, 0.0}}, "memory"},
        BadMessage{"CostOfBytes", Probed{{NAN, 1e9}}, "busy_per_byte"}, BadMessage{"NoCredit", Credit{0}, "credit 0"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace convoy::wire
