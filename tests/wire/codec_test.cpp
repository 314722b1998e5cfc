#include "wire/codec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/random.hpp"

namespace convoy::wire {
namespace {

using testing::HasSubstr;

Stage sample_stage() {
  return {.name = "conv1",
          .channels = 3,
          .height = 9,
          .width = 8,
          .conv = {.filters = 7,
                   .kernel_h = 3,
                   .kernel_w = 2,
                   .stride_h = 1,
                   .stride_w = 2,
                   .pad = {1, 0, 2, 1},
                   .dilation_h = 2,
                   .dilation_w = 3},
          .after = {Activation{Activation::Kind::leaky_relu, 0.125F},
                    Pooling{.kind = PoolKind::average, .pad = {0, 1, 1, 0}}, Dropout{0.25F, 3, true},
                    BatchNorm{.name = "norm1", .epsilon = 0.5F, .momentum = 0.25F, .rate = 0.75F},
                    Activation{Activation::Kind::clip, -0.5F, 6.0F}, Activation{Activation::Kind::celu, 0.5F},
                    Multiply{{{Source::kZeros, {0, 7}}}, true},
                    Pooling{.kind = PoolKind::average_with_padding, .kernel_h = 1, .kernel_w = 1},
                    Pooling{.kernel_h = 1, .kernel_w = 1, .pad = {}, .dilation_h = 5, .dilation_w = 6}},
          .moments = 2,
          .shuffle = 3,
          .group_norm = {.groups = 4, .epsilon = 0.125F, .by_position = true},
          .resizing = {Resizing::Mode::spread, {50, 6.0, 2.0}, {40, 5.0, 0.0}}};
}

/// The stage after sample_stage() in a trunk.
Stage next_stage() {
  const Shape maps = output_shape(sample_stage(), 1, 7);
  return {.name = "conv2",
          .channels = maps.c,
          .height = maps.h,
          .width = maps.w,
          .conv = {.filters = 14, .kernel_h = 1, .kernel_w = 1, .bias = false, .groups = 7, .rate = 0.5F},
          .after = {}};
}

Assign sample_assign() {
  const StagePlan in_rows{.rows = {{{0, 3}, {{0, {0, 14}}}}, {{3, 5}, {{1, {0, 14}}}}},
                          .owners = {{0, {0, 6}}, {1, {6, 8}}},
                          .replicated = false};
  Plan plan{.batch = 64,
            .members = {"garage", "attic"},
            .stages = {stage_plan({3, 4}, 8), in_rows},
            .exchange = Exchange::ring,
            .wire = NumberType::bf16,
            .micro_batches = 8,
            .relayed = true,
            .unequal = {1}};
  plan.stages[0].replicated = true;
  return {{sample_stage(), next_stage()},
          plan,
          1,
          "token",
          {":5571", "10.0.0.2:5571"},
          true,
          {"", "key"},
          {{1, {2, 5}, 1, 0}},
          {"first", "second"}};
}

/// One message of each kind; every field has a value of its own.
std::vector<Message> samples() {
  return {Hello{1, "garage", "oneDNN", 4, 123456789012, 16, {"a", "b"}, 5571, "key"},
          Welcome{1, "lenet"},
          Refused{"full"},
          Bye{"done"},
          Ping{5, true},
          Attach{"garage"},
          Calibrate{sample_stage(), 5, 8, true, 3},
          Calibrated{0.125, 0.25, 0.5, 0.75},
          sample_assign(),
          Load{1, {3, 4}, {{0x1122334455667788U, 9}, {1, 2}}, NumberType::bf16},
          Step{9,
               {.update = UpdateStep{Optimizer::adam, 0.5F, 0.25F, 0.125F, 0.75F, 0.0625F, 1.5F, 2.5F, 3.5F},
                .pass = Pass{.training = true, .seed = 0x1122334455667788, .squares = true},
                .scales = {{0.5, 0.25}, {-1.5, 2.0}}}},
          Snapshot{1, {0, 2}, true, NumberType::fp16},
          Piece{1, 2, 3},
          Credit{4},
          Done{1.5,
               2.5,
               3.5,
               {0.5, 1.0},
               {1, 3},
               MachineEnergy{"battery", "board", "measured", 4.5, 5.5, 6.5, 7.5, 1.25, 1.5, 1.75, 8.5, 9.5, 10.5, 11.5,
                             "short", 0.125, 5, 6, 12.5}},
          Failed{"no memory"},
          Unreached{{"attic", "cellar"}},
          Probe{16},
          Assigned{"token"},
          Leaving{},
          Probed{{0.25, 4.0}},
          Squares{1.5},
          Move{},
          Wanted{2, {0, 3}},
          Originals{9, 2, {{0x1122334455667788U, 9}, {1, 2}}, {{-3, 4, true}, {0, 1, false}}, {7, 8, 9}},
          Missing{9, 2, {0, 3}}};
}

std::string hex(const std::vector<std::byte>& bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

/// Compares encoded bytes, because messages have no operator==.
void expect_same(const Message& a, const Message& b) {
  EXPECT_EQ(a.index(), b.index());
  EXPECT_EQ(hex(encode(a)), hex(encode(b)));
}

TEST(Codec, RoundTripOfEveryMessage) {
  ASSERT_EQ(samples().size(), std::variant_size_v<Message>);
  for (std::size_t i = 0; i < samples().size(); ++i) {
    EXPECT_EQ(samples()[i].index(), i) << "the samples are in the order of the kinds";
    expect_same(decode(encode(samples()[i])), samples()[i]);
  }
}

TEST(Codec, KeepsEveryField) {
  const auto assign = std::get<Assign>(decode(encode(samples()[8])));
  EXPECT_EQ(assign.trunk, (std::vector<Stage>{sample_stage(), next_stage()}));
  EXPECT_EQ(assign.plan, sample_assign().plan);
  EXPECT_EQ(assign.peers, sample_assign().peers);
  EXPECT_EQ(assign.client_keys, sample_assign().client_keys);
  ASSERT_EQ(assign.moves.size(), 1U);
  EXPECT_EQ(assign.moves[0].stage_index, 1U);
  EXPECT_EQ(assign.moves[0].filters, (FilterRange{2, 5}));
  EXPECT_EQ(assign.moves[0].from, 1);
  EXPECT_EQ(assign.moves[0].to, 0);
  const auto step = std::get<Step>(decode(encode(samples()[10])));
  EXPECT_TRUE(step.work.trains());
  EXPECT_EQ(step.work.pass->seed, 0x1122334455667788U);
  EXPECT_TRUE(step.work.pass->squares);
  EXPECT_EQ(step.work.scales, (std::vector<ChannelScale>{{0.5, 0.25}, {-1.5, 2.0}}));
  EXPECT_EQ(step.work.update, std::get<Step>(samples()[10]).work.update);
  const MachineEnergy energy = std::get<Done>(decode(encode(samples()[14]))).energy.value();
  EXPECT_EQ(energy.refresh, 0.125);
  EXPECT_EQ(energy.wraps, 5U);
  EXPECT_EQ(energy.gaps, 6U);
  EXPECT_EQ(energy.gap_seconds, 12.5);
  const auto originals = std::get<Originals>(decode(encode(samples()[24])));
  EXPECT_EQ(originals.views, (std::vector<ImageView>{{-3, 4, true}, {0, 1, false}}));
  EXPECT_EQ(originals.fill, (std::vector<std::uint8_t>{7, 8, 9}));
  EXPECT_EQ(originals.contents, (std::vector<Content>{{0x1122334455667788U, 9}, {1, 2}}));
  const auto hello = std::get<Hello>(decode(encode(samples()[0])));
  EXPECT_EQ(hello.memory, 123456789012U);
  EXPECT_EQ(hello.capabilities, (std::vector<std::string>{"a", "b"}));
}

/// Pins the bytes that masters and slaves of other releases send. They may change only with kProtocolVersion.
TEST(Codec, GoldenBytes) {
  const std::vector<std::string> golden = {
#include "tests/wire/golden.inc"
  };
  ASSERT_EQ(golden.size(), samples().size());
  for (std::size_t i = 0; i < golden.size(); ++i)
    EXPECT_EQ(hex(encode(samples()[i])), golden[i]) << name_of(samples()[i]);
}

TEST(Codec, EveryTruncationIsRefused) {
  for (const Message& message : samples()) {
    const std::vector<std::byte> bytes = encode(message);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      // A buffer cut within its last padding bytes may still decode. A cut buffer must never crash the decoder.
      try {
        decode(std::span(bytes).first(length));
      } catch (const Error&) {
      }
    }
    EXPECT_THROW(decode(std::span(bytes).first(bytes.size() / 2)), Error) << name_of(message);
  }
}

TEST(Codec, MutationsDecodeToAMessageOrAnError) {
  Random random(1, 1);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto all = samples();
    std::vector<std::byte> bytes = encode(all[random.below(static_cast<std::uint32_t>(all.size()))]);
    for (std::uint32_t i = 1 + random.below(4); i > 0; --i) {
      bytes[random.below(static_cast<std::uint32_t>(bytes.size()))] = static_cast<std::byte>(random.below(256));
    }
    try {
      encode(decode(bytes));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

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

TEST(Codec, RefusesWhatIsNoMessage) {
  const auto expect_refused = [](std::vector<std::byte> bytes, const char* expected) {
    try {
      decode(bytes);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(expected));
    }
  };
  expect_refused({}, "the bytes are not a message of Convoy");
  expect_refused(std::vector<std::byte>(100), "not a message of Convoy");
  expect_refused(std::vector<std::byte>(2 << 20), "the header has 2097152 bytes");
  std::vector<std::byte> other = encode(Ping{});
  other[7] = static_cast<std::byte>('9');
  expect_refused(other, "CVY2");
}

}  // namespace
}  // namespace convoy::wire
