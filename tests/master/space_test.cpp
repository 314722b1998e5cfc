// Tests spaces of searches: their values, and the errors for wrong files, each of which must name the place and the
// fix.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "master/jobs/space.hpp"
#include "tests/support/process.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

/// A space with one parameter.
std::string with_range(const std::string& range) {
  return "net: glyphs.yaml\ntrials: 4\nparameters:\n  training.learning_rate: " + range + "\n";
}

/// A space with one parameter and these fields.
std::string with_fields(const std::string& fields) {
  return "net: glyphs.yaml\n" + fields + "parameters: {training.learning_rate: {log: [0.001, 0.3]}}\n";
}

struct BadSpace {
  std::string name;
  std::string text;
  std::vector<std::string> expected;
};

void PrintTo(const BadSpace& bad, std::ostream* out) { *out << bad.name; }

class BadSpaces : public testing::TestWithParam<BadSpace> {};

TEST_P(BadSpaces, AreRefusedWithPlaceAndFix) {
  try {
    parse_space(GetParam().text, "s.yaml");
    FAIL() << "accepted";
  } catch (const Error& error) {
    for (const std::string& expected : GetParam().expected) EXPECT_THAT(error.what(), HasSubstr(expected));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadSpaces,
    testing::Values(
        BadSpace{"Empty", "", {"s.yaml:1", "net, trials and parameters"}},
        BadSpace{"NoYaml", "net: [", {"s.yaml:1", "the text is not YAML; a bracket", "expected the space of a search"}},
        BadSpace{"AList", "- net\n", {"s.yaml:1", "expected the space of a search"}},
        BadSpace{"NoNet", "trials: 3\nparameters: {a.b: {choice: [1]}}\n", {"s.yaml:1", "net is missing"}},
        BadSpace{"EmptyNet", "net: ''\ntrials: 3\n", {"s.yaml:1", "net is empty", "a path"}},
        BadSpace{"NetList", "net: [a]\ntrials: 3\n", {"s.yaml:1", "net is no text"}},
        BadSpace{"UnknownField", with_fields("trails: 3\n"), {"s.yaml:2", "trails", "did you mean trials"}},
        BadSpace{"FieldTwice", with_fields("trials: 3\ntrials: 4\n"), {"s.yaml:", "trials is given twice"}},
        BadSpace{"NoTrials", with_fields("trials: 0\n"), {"s.yaml:2", "trials is '0'", "from 1 to"}},
        BadSpace{"HalfATrial", with_fields("trials: 2.5\n"), {"s.yaml:2", "'2.5'", "whole number"}},
        BadSpace{"Images", with_fields("images: -3\n"), {"s.yaml:2", "images is '-3'"}},
        BadSpace{"HalfAnImage", with_fields("images: 10.5\n"), {"s.yaml:2", "images is 10.5", "whole number"}},
        BadSpace{"NanHours", with_fields("hours: nan\n"), {"s.yaml:2", "hours is 'nan'", "a number from"}},
        BadSpace{"ValSplit", with_fields("trials: 3\nval_split: 1\n"), {"s.yaml:3", "val_split is '1'"}},
        BadSpace{"Method", with_fields("trials: 3\nmethod: anneal\n"), {"s.yaml:3", "'anneal'", "grid, random or tpe"}},
        BadSpace{"Metric", with_fields("trials: 3\nmetric: speed\n"), {"s.yaml:3", "'speed'", "accuracy or loss"}},
        BadSpace{"Seed", with_fields("trials: 3\nseed: -1\n"), {"s.yaml:3", "seed", "whole number"}},
        BadSpace{"NoEnd", with_fields(""), {"s.yaml:1", "no end", "give trials, images or hours"}},
        BadSpace{"RungsNumber", with_fields("trials: 3\nrungs: 3\n"), {"s.yaml:3", "expected a map"}},
        BadSpace{"NoFirstRung", with_fields("trials: 3\nrungs: {factor: 3}\n"), {"s.yaml:3", "first is missing"}},
        BadSpace{"FactorOne", with_fields("trials: 3\nrungs: {first: 9, factor: 1}\n"), {"factor is '1'", "from 2 to"}},
        BadSpace{"LastRungBelow",
                 with_fields("trials: 3\nrungs: {first: 90, last: 90}\n"),
                 {"s.yaml:3", "last is 90", "more images than those of the first rung"}},
        BadSpace{"BudgetBelowTheFirstRung",
                 with_fields("images: 80\nrungs: {first: 90}\n"),
                 {"s.yaml:2", "images is 80, fewer than the 90 of the first rung", "give more images"}},
        BadSpace{"UnknownRung", with_fields("trials: 3\nrungs: {first: 9, max: 90}\n"), {"s.yaml:3", "max"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Ranges, BadSpaces,
    testing::Values(
        BadSpace{"NoParameters", "net: a\ntrials: 3\n", {"s.yaml:1", "parameters is missing"}},
        BadSpace{"EmptyParameters", "net: a\ntrials: 3\nparameters: {}\n", {"s.yaml:3", "no map of 1 to"}},
        BadSpace{"ParametersList", "net: a\ntrials: 3\nparameters: [a]\n", {"s.yaml:3", "no map of 1 to"}},
        BadSpace{"NoRange", with_range("{}"), {"s.yaml:4", "no range", "linear, log, integer and choice"}},
        BadSpace{"Number", with_range("0.1"), {"s.yaml:4", "has no range", "{log: [0.001, 0.3]}"}},
        BadSpace{"TwoRanges", with_range("{log: [1, 2], linear: [1, 2]}"), {"s.yaml:4", "cannot stand beside"}},
        BadSpace{"UnknownRange", with_range("{lgo: [1, 2]}"), {"s.yaml:4", "lgo", "did you mean log"}},
        BadSpace{"LogOfZero", with_range("{log: [0, 2]}"), {"s.yaml:4", "begins at 0", "no logarithm"}},
        BadSpace{"LogOfLess", with_range("{log: [-1, 2]}"), {"s.yaml:4", "begins at -1"}},
        BadSpace{"Backwards", with_range("{linear: [2, 1]}"), {"s.yaml:4", "[2, 1]", "less than the second"}},
        BadSpace{"OnePoint", with_range("{integer: [2, 2]}"), {"s.yaml:4", "[2, 2]", "less than the second"}},
        BadSpace{"ThreeEnds", with_range("{linear: [0, 1, 2]}"), {"s.yaml:4", "list of 2"}},
        BadSpace{"OneEnd", with_range("{linear: 1}"), {"s.yaml:4", "no list", "[1, 8]"}},
        BadSpace{"NanEnd", with_range("{linear: [nan, 1]}"), {"s.yaml:4", "'nan'"}},
        BadSpace{"InfiniteEnd", with_range("{log: [1, inf]}"), {"s.yaml:4", "'inf'"}},
        BadSpace{"Fraction", with_range("{integer: [1.5, 8]}"), {"s.yaml:4", "'1.5'", "whole number"}},
        BadSpace{"HugeInteger", with_range("{integer: [1, 99999999999]}"), {"s.yaml:4", "'99999999999'"}},
        BadSpace{"EmptyChoice", with_range("{choice: []}"), {"s.yaml:4", "is empty", "[sgd, adam]"}},
        BadSpace{"EmptyText", with_range("{choice: ['']}"), {"s.yaml:4", "empty text"}},
        BadSpace{"ChoiceTwice", with_range("{choice: [a, b, a]}"), {"s.yaml:4", "a twice"}},
        BadSpace{"ChoiceOfLists", with_range("{choice: [[a], b]}"), {"s.yaml:4", "a list", "a text"}},
        BadSpace{"StepsOfChoice", with_range("{choice: [a, b], steps: 2}"), {"s.yaml:4", "steps has no meaning"}},
        BadSpace{"OneStep", with_range("{linear: [0, 1], steps: 1}"), {"s.yaml:4", "steps is '1'"}},
        BadSpace{"NoOwner", "net: a\ntrials: 3\nparameters: {rate: {linear: [0, 1]}}\n", {"s.yaml:3", "OWNER.FIELD"}},
        BadSpace{"Equals", "net: a\ntrials: 3\nparameters: {a.b=c: {linear: [0, 1]}}\n", {"s.yaml:3", "OWNER.FIELD"}},
        BadSpace{"Patience",
                 "net: a\ntrials: 3\nparameters: {training.patience: {integer: [0, 1]}}\n",
                 {"s.yaml:3", "cannot be searched"}},
        BadSpace{"FieldOfAField",
                 "net: a\ntrials: 3\nparameters:\n  training.schedule: {choice: ['{kind: cosine}']}\n"
                 "  training.schedule.kind: {choice: [cosine]}\n",
                 {"s.yaml:5", "set the same field"}},
        BadSpace{"EpochsAndRungs",
                 "net: a\ntrials: 3\nrungs: {first: 9}\nparameters: {training.epochs: {integer: [1, 3]}}\n",
                 {"s.yaml:4", "training.epochs", "rungs"}},
        BadSpace{"GridWithoutSteps",
                 "net: a\nmethod: grid\nparameters:\n  training.momentum: {linear: [0, 0.9]}\n",
                 {"s.yaml:4", "training.momentum", "needs steps"}},
        BadSpace{"HugeGrid",
                 "net: a\nmethod: grid\nparameters:\n  conv1.filters: {integer: [1, 2000]}\n"
                 "  conv2.filters: {integer: [1, 2000]}\n",
                 {"s.yaml:3", "4e+06 settings", "method random"}}),
    [](const auto& info) { return info.param.name; });

// ---- together with a net -------------------------------------------------------------------------------------------

struct Misfit {
  std::string name;
  std::string parameters;
  Overrides fixed;
  std::vector<std::string> expected;
};

void PrintTo(const Misfit& bad, std::ostream* out) { *out << bad.name; }

class Misfits : public testing::TestWithParam<Misfit> {};

TEST_P(Misfits, AreFoundBeforeAnyTrial) {
  const Space space = parse_space("net: x\ntrials: 2\nparameters:\n  " + GetParam().parameters + "\n", "s.yaml");
  try {
    expect_in_net(space, source_folder() + "/nets/glyphs.yaml", GetParam().fixed);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("s.yaml:4: parameters "));
    for (const std::string& expected : GetParam().expected) EXPECT_THAT(error.what(), HasSubstr(expected));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Nets, Misfits,
    testing::Values(
        Misfit{"NoSuchLayer", "conv9.filters: {integer: [1, 3]}", {}, {"no layer 'conv9'"}},
        Misfit{"NoSuchField", "conv1.filtres: {integer: [1, 3]}", {}, {"filtres", "did you mean filters"}},
        Misfit{"NoSuchSetting", "training.speed: {log: [0.1, 1]}", {}, {"speed is not a field"}},
        Misfit{"RateOfNoLayer", "training.rate: {log: [0.1, 1]}", {}, {"training.rate", "learning_rate"}},
        Misfit{"LowEnd", "conv1.filters: {integer: [0, 3]}", {}, {"the value 0", "filters is '0'"}},
        Misfit{"HighEnd", "training.momentum: {linear: [0.5, 1.5]}", {}, {"the value 1.5", "momentum is '1.5'"}},
        Misfit{"Choice", "training.optimizer: {choice: [sgd, adagrad]}", {}, {"adagrad", "sgd, nesterov or adam"}},
        Misfit{"NumberForAWord", "training.optimizer: {linear: [0, 1]}", {}, {"optimizer is '0'"}},
        Misfit{"FractionOfAFilter", "conv1.filters: {linear: [1.5, 3]}", {}, {"filters is '1.5'"}},
        Misfit{"NoKernel", "conv1.kernel: {choice: [5, 0]}", {}, {"the value 0", "kernel is '0'"}},
        Misfit{"FixedToo", "conv1.filters: {integer: [1, 3]}", {"conv1.filters=2"}, {"--set conv1.filters=2 already"}}),
    [](const auto& info) { return info.param.name; });

// ---- good spaces ---------------------------------------------------------------------------------------------------

TEST(Spaces, AreReadWithAllFields) {
  const Space space = parse_space(
      "net: lenet.yaml\ndata: mnist\nmethod: random\nmetric: loss\nseed: 18446744073709551615\ntrials: 30\n"
      "images: 5000000000\nhours: 1.5\nrungs: {first: 3000, factor: 4, last: 60000}\nparameters:\n"
      "  training.learning_rate: {log: [0.001, 0.3], steps: 5}\n  conv1.filters: {integer: [8, 64]}\n"
      "  training.optimizer: {choice: [sgd, adam]}\n  training.momentum: {linear: [0, 0.95]}\n",
      "s.yaml");
  EXPECT_EQ(space.net, "lenet.yaml");
  EXPECT_EQ(space.data, "mnist");
  EXPECT_EQ(space.method, Method::random);
  EXPECT_EQ(space.metric, Metric::loss);
  EXPECT_EQ(space.seed, ~std::uint64_t{0});
  EXPECT_EQ(space.budget.trials, 30);
  EXPECT_EQ(space.budget.images, 5000000000);
  EXPECT_EQ(space.budget.hours, 1.5);
  ASSERT_TRUE(space.rungs);
  EXPECT_EQ(space.rungs->first, 3000);
  EXPECT_EQ(space.rungs->factor, 4);
  EXPECT_EQ(space.rungs->last, 60000);
  ASSERT_EQ(space.parameters.size(), 4U);
  EXPECT_EQ(space.parameters[0].kind, SearchedField::Kind::log);
  EXPECT_EQ(space.parameters[0].steps, 5);
  EXPECT_EQ(space.parameters[1].high, 64.0);
  EXPECT_EQ(space.parameters[2].choices, (std::vector<std::string>{"sgd", "adam"}));
  EXPECT_EQ(space.parameters[3].line, 14);
}

TEST(Spaces, MissingFilesAreNamed) {
  const TemporaryFolder folder;
  EXPECT_THROW(read_space(folder.path()), Error);
  EXPECT_THROW(read_space(folder.path() + "/none.yaml"), Error);
}

TEST(Values, CoverTheirRange) {
  const SearchedField log{.name = "a.b", .kind = SearchedField::Kind::log, .low = 0.001, .high = 10.0};
  EXPECT_EQ(value_at(log, 0.0), "0.001");
  EXPECT_EQ(value_at(log, 0.5), "0.1");  // the middle of a log range is the geometric mean
  EXPECT_EQ(value_at(log, 1.0), "10");
  const SearchedField linear{.name = "a.b", .kind = SearchedField::Kind::linear, .low = -1.0, .high = 1.0};
  EXPECT_EQ(value_at(linear, 0.25), "-0.5");
  const SearchedField integer{.name = "a.b", .kind = SearchedField::Kind::integer, .low = 3.0, .high = 6.0};
  EXPECT_EQ(value_at(integer, 0.0), "3");
  EXPECT_EQ(value_at(integer, 0.26), "4");
  EXPECT_EQ(value_at(integer, 1.0), "6");
  const SearchedField choice{.name = "a.b", .choices = {"x", "y", "z"}};
  EXPECT_EQ(value_at(choice, 0.34), "y");
}

/// Rounding to six digits must not leave the range.
TEST(Values, StayWithinTheirRange) {
  const SearchedField narrow{.name = "a.b", .kind = SearchedField::Kind::linear, .low = 0.12345678, .high = 0.12345682};
  for (const double unit : {0.0, 0.3, 0.7, 1.0}) {
    const double value = std::stod(value_at(narrow, unit));
    EXPECT_GE(value, narrow.low);
    EXPECT_LE(value, narrow.high);
  }
}

TEST(Values, AreFoundAgainInTheirRange) {
  const SearchedField log{.name = "a.b", .kind = SearchedField::Kind::log, .low = 1e-5, .high = 1.0};
  const SearchedField integer{.name = "a.b", .kind = SearchedField::Kind::integer, .low = 0.0, .high = 9.0};
  const SearchedField choice{.name = "a.b", .choices = {"x", "y"}};
  for (const double unit : {0.05, 0.35, 0.95}) {
    EXPECT_NEAR(unit_of(log, value_at(log, unit)), unit, 1e-5);
    EXPECT_NEAR(unit_of(integer, value_at(integer, unit)), unit, 1e-9);
  }
  EXPECT_EQ(unit_of(choice, "y"), 0.75);
  const SearchedField narrow = parse_space(
                                   "net: n.yaml\ntrials: 1\nparameters: {a.b: {log: [10000000000, "
                                   "10000000000.000002]}}\n",
                                   "s.yaml")
                                   .parameters.front();
  EXPECT_EQ(unit_of(narrow, value_at(narrow, 0.9)), 0.5) << "both ends have the same logarithm";
  for (const char* value : {"0", "2", "nan", "", "0.1x"}) EXPECT_THROW(unit_of(log, value), Error) << value;
  for (const char* value : {"10", "-1", "2.5", "x"}) EXPECT_THROW(unit_of(integer, value), Error) << value;
  EXPECT_THROW(unit_of(choice, "z"), Error);
}

}  // namespace
}  // namespace convoy
