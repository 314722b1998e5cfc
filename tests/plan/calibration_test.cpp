#include "plan/calibration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

std::vector<Stage> one_stage() {
  const Stage stage{.name = "conv1",
                    .channels = 3,
                    .height = 8,
                    .width = 8,
                    .conv = {.filters = 20, .kernel_h = 3, .kernel_w = 3},
                    .after = {}};
  return {stage};
}

Calibration calibration() {
  Calibration made{
      .batch = 16,
      .stages = {"conv1"},
      .master = {.head = {0.25, 0.01, 0.5}, .host = {1e-9, 2e9}, .card = {3e7, 4e7}, .power = Power{4, 6, 5}},
      .members = {},
      .seconds_alone = 3.5};
  made.members.push_back({.name = "a",
                          .memory = 1234567890123,
                          .memory_factor = 1.25,
                          .filter_block = 16,
                          .same_bits = false,
                          .stages = {{{10, 0.1, 0.2, 0.3}, {20, 0.2, 0.4, 0.5, 0.6, 0.07, 0.08}}},
                          .link = {1e8, 2e8},
                          .latency = 1e-4,
                          .power = Power{.idle = 5, .compute = 25, .transfer = 8}});
  made.members.push_back({.name = "b", .stages = {{}}});  // a member without timings, because its memory holds nothing
  return made;
}

TEST(Calibrations, SurviveJson) {
  const Calibration read = calibration_from_json(to_json(calibration()), "file", one_stage(), 16);
  EXPECT_EQ(to_json(read), to_json(calibration()));
  EXPECT_EQ(read.members[0].memory, 1234567890123U);
  EXPECT_EQ(read.members[0].memory_factor, 1.25);
  EXPECT_FALSE(read.members[0].same_bits);
  EXPECT_TRUE(read.members[1].same_bits);
  EXPECT_EQ(read.members[1].memory_factor, 0.0);
  EXPECT_EQ(read.members[0].stages[0][1].backward_filters, 0.5);
  EXPECT_EQ(read.members[0].stages[0][1].in_parts(3).backward_input, 0.4 + 2 * 0.08);
  EXPECT_EQ(read.members[0].link.in, 2e8);
  EXPECT_EQ(read.master.head.pass(5), 0.25 + 5 * 0.01);
  EXPECT_EQ(read.master.head.update, 0.5);
  EXPECT_EQ(read.master.card.out, 3e7);
  EXPECT_TRUE(read.members[1].stages[0].empty());
  EXPECT_EQ(read.members[0].power, (Power{5, 25, 8}));
  EXPECT_FALSE(read.members[1].power) << "a file without watts knows none";
  EXPECT_EQ(read.master.power, (Power{4, 6, 5}));
}

/// A net is planned without the slices of its dense layer, unless the plan is for these.
TEST(Calibrations, MayHaveTheSlicesOfADenseLayer) {
  Calibration made = calibration();
  made.sliced_head = HeadTimes{.fixed = 0.125, .per_image = 0.5, .update = 0.25};
  made.stages.insert(made.stages.end(), {"dense/1", "dense"});
  for (MemberProfile& member : made.members) member.stages.resize(3);
  const std::string text = to_json(made);
  EXPECT_EQ(to_json(calibration_from_json(text, "file")), text);
  EXPECT_EQ(to_json(calibration_from_json(text, "file", one_stage(), 16)), to_json(calibration()));
  std::vector<Stage> trunk = one_stage();
  for (const std::string name : {"dense/1", "dense"}) {
    trunk.push_back(trunk[0]);
    trunk.back().name = name;
  }
  EXPECT_EQ(to_json(calibration_from_json(text, "file", trunk, 16, true)), text);
}

struct BadCalibration {
  std::string name;
  std::string what;  ///< the part of the valid text that is replaced
  std::string by;
  std::string error;
};

void PrintTo(const BadCalibration& bad, std::ostream* out) { *out << bad.name; }

class BadCalibrations : public testing::TestWithParam<BadCalibration> {};

TEST_P(BadCalibrations, AreRefusedWithTheReason) {
  std::string text = to_json(calibration());
  const std::size_t at = text.find(GetParam().what);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, GetParam().what.size(), GetParam().by);
  EXPECT_THAT([&] { calibration_from_json(text, "some.json", one_stage(), 16); },
              testing::ThrowsMessage<Error>(testing::AllOf(HasSubstr("some.json"), HasSubstr(GetParam().error))));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadCalibrations,
    testing::Values(
        BadCalibration{"NoJson", "{", "", "is not a calibration"},
        BadCalibration{"NoBatch", "\"batch\"", "\"bitch\"", "batch"},
        BadCalibration{"OtherBatch", "\"batch\": 16", "\"batch\": 8", "use --batch 8"},
        BadCalibration{"OtherNet", "\"conv1\"", "\"conv7\"", "stages conv7, but this net has conv1"},
        BadCalibration{"NegativeTime", "0.2", "-0.2", "expected 0 to 1e+18"},
        BadCalibration{"TooManyFilters", "\"filters\": 20", "\"filters\": 21", "has 21 filters, but the stage has 20"},
        BadCalibration{"Unordered", "\"filters\": 20", "\"filters\": 10", "expected 11 to 1048576"},
        BadCalibration{"HugeTime", "0.2", "1e200", "one of its numbers is too large"},
        BadCalibration{"TooLargeANumber", "0.2", "1e999", "one of its numbers is too large"},
        BadCalibration{"NotANumber", "0.2", "NaN", "it is not JSON from byte"},
        BadCalibration{"TwoBatches", "\"batch\"", "\"batch\": 16, \"batch\"", "its field 'batch' comes twice"},
        BadCalibration{"Deep", "0.2", std::string(80000, '[') + std::string(80000, ']'),
                       "it is nested deeper than 16 levels"},
        BadCalibration{"DeepName", "\"conv1\"", std::string(80000, '[') + std::string(80000, ']'),
                       "it is nested deeper than 16 levels"},
        BadCalibration{"NoTime", "\"forward\": 0.1", "\"forward\": \"fast\"", "is not a calibration"},
        BadCalibration{"FilterBlock", "\"filter_block\": 16", "\"filter_block\": 0", "filter_block of a is 0"},
        BadCalibration{"Watts", "\"compute\": 25.0", "\"compute\": 4.0",
                       "watts of a: computing takes 4 W, less than the 5 W of idling"},
        BadCalibration{"TransferWatts", "\"transfer\": 8.0", "\"transfer\": 1", "moving data takes 1 W, less than"},
        BadCalibration{"HugeWatts", "\"compute\": 25.0", "\"compute\": 2e6", "2e+06 W is not a power from 0 to"},
        BadCalibration{"NegativeWatts", "\"idle\": 5.0", "\"idle\": -5.0", "idle is -5, expected 0 to"},
        BadCalibration{"NoWattsOfIdling", "\"idle\": 5.0", "\"ilde\": 5.0", "its field 'idle' is missing"},
        BadCalibration{"MastersWatts", "\"compute\": 6.0", "\"compute\": 0.0", "watts of master: computing takes 0 W"},
        BadCalibration{"Link", "100000000.0", "-1", "bytes_per_second_out"}),
    [](const auto& info) { return info.param.name; });

/// A reader that compared each field with all others would take hours.
TEST(Calibrations, ManyFieldsAreReadInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 500000; ++i) text += fmt::format("\"f{}\":0,", i);
  const std::string whole = to_json(calibration());
  EXPECT_EQ(to_json(calibration_from_json(text + whole.substr(1), "file", one_stage(), 16)), whole);
}

}  // namespace
}  // namespace convoy
