// Tests the errors for wrong net files: each must name the place and how to fix it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "nets/graph/net.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

struct BadNet {
  std::string name;
  std::string layers;  ///< list items, or a whole file if the text begins with "name:" or "!"
  std::vector<std::string> expected;
  Overrides overrides = {};
};

void PrintTo(const BadNet& bad, std::ostream* out) { *out << bad.name; }

constexpr const char* kHead = "name: test\ninput: {channels: 3, height: 12, width: 10}\nlayers:\n";
constexpr const char* kTail = "  - {name: out, type: dense, units: 4}\n  - {name: loss, type: softmax_cross_entropy}\n";
constexpr const char* kConv = "  - {name: c, type: conv, filters: 5, kernel: 3}\n";

/// The text of the net file. Its layers begin at line 4.
std::string text_of(const BadNet& bad) {
  if (bad.layers.rfind("name:", 0) == 0) return bad.layers;
  if (bad.layers.rfind('!', 0) == 0) return bad.layers.substr(1);
  return kHead + bad.layers + kTail;
}

class BadNets : public testing::TestWithParam<BadNet> {};

TEST_P(BadNets, AreRefusedWithPlaceAndFix) {
  try {
    cut(parse_net(text_of(GetParam()), "t.yaml", GetParam().overrides));
    FAIL() << "accepted";
  } catch (const Error& error) {
    for (const std::string& expected : GetParam().expected) EXPECT_THAT(error.what(), HasSubstr(expected));
  }
}

std::string conv(const std::string& fields) { return "  - {name: c, type: conv, " + fields + "}\n"; }

std::string file(const std::string& layers) { return kHead + layers; }

INSTANTIATE_TEST_SUITE_P(
    Layers, BadNets,
    testing::Values(
        BadNet{"UnknownType", "  - {name: c, type: conf}\n", {"t.yaml:4", "layer c", "'conf'", "did you mean conv"}},
        BadNet{"UnknownField", conv("filters: 5, kernel: 3, strid: 2"), {"t.yaml:4", "strid", "did you mean stride"}},
        BadNet{"FieldInPlaceOfARequiredOne",
               conv("filter: 5, kernel: 3"),
               {"t.yaml:4", "filter is", "did you mean filters"}},
        BadNet{"PatternWithoutLayers",
               "!" + file(std::string(kConv) + kTail) + "training: {freeze: [c, \"d*\"]}\n",
               {"t.yaml:7", "freeze names 'd*'", "no layer with weights", "c, out"}},
        BadNet{"PatternOfAnOverride", kConv, {"--set d*.freeze=true", "matches no layer"}, {"d*.freeze=true"}},
        BadNet{"PatternOfAnotherField", kConv, {"--set c*.filters=3", "freeze or rate alone"}, {"c*.filters=3"}},
        BadNet{"EverythingFrozen", kConv, {"all layers", "nothing is left to train"}, {"*.freeze=true"}},
        BadNet{"RateTooLarge", conv("filters: 5, kernel: 3, rate: 1001"), {"t.yaml:4", "rate is '1001'", "0 to 1000"}},
        BadNet{"FreezeOfALayerWithoutWeights",
               std::string(kConv) + "  - {name: r, type: relu, freeze: true}\n",
               {"t.yaml:5", "layer r", "freeze is not a field"}},
        BadNet{"ClassWeightsOfOtherClasses",
               kConv,
               {"class_weights has 3 numbers", "4 classes"},
               {"loss.class_weights=[1, 2, 3]"}},
        BadNet{"ResizeBelowTheInput", kConv, {"resize is '11'", "from 12"}, {"input.resize=11"}},
        BadNet{"TwoCrops", kConv, {"crop and resized_crop both"}, {"augment.crop=2", "augment.resized_crop=0.5"}},
        BadNet{"NoFilters", conv("kernel: 3"), {"t.yaml:4", "layer c", "filters is missing"}},
        BadNet{"NoKernel", conv("filters: 3"), {"kernel is missing"}},
        BadNet{"ZeroFilters", conv("filters: 0, kernel: 3"), {"filters is '0'", "from 1 to"}},
        BadNet{"NegativeFilters", conv("filters: -5, kernel: 3"), {"filters is '-5'"}},
        BadNet{"HugeFilters", conv("filters: 99999999999999, kernel: 3"), {"filters is '99999999999999'"}},
        BadNet{"FractionOfAFilter", conv("filters: 2.5, kernel: 3"), {"'2.5'", "whole number"}},
        BadNet{"FiltersText", conv("filters: many, kernel: 3"), {"'many'"}},
        BadNet{"FiltersList", conv("filters: [1, 2], kernel: 3"), {"filters is a list"}},
        BadNet{"KernelOfThree", conv("filters: 2, kernel: [1, 2, 3]"), {"kernel", "list of 2"}},
        BadNet{"KernelTooLarge", conv("filters: 2, kernel: 13"), {"t.yaml:4: layer c", "13x13 does not fit", "12x10"}},
        BadNet{"ZeroStride", conv("filters: 2, kernel: 3, stride: 0"), {"stride is '0'"}},
        BadNet{"PadWord", conv("filters: 2, kernel: 3, pad: some"), {"pad is 'some'"}},
        BadNet{"PadNotSmaller", conv("filters: 2, kernel: 3, pad: 3"), {"padding 3 3 3 3", "3x3"}},
        BadNet{"ConcatOfOne",
               std::string(kConv) + "  - {name: j, from: [c], type: concat}\n",
               {"t.yaml:5", "layer j", "fewer than two"}},
        BadNet{"SumOfUnlikes",
               std::string(kConv) + "  - {name: c2, from: c, type: conv, filters: 4, kernel: 3, pad: same}\n"
                                    "  - {name: s, from: [c, c2], type: add}\n",
               {"t.yaml:6", "layer s", "c is 5x10x8", "c2 is 4x10x8"}},
        BadNet{"ConcatOfUnlikes",
               std::string(kConv) + "  - {name: c2, from: c, type: conv, filters: 4, kernel: 3}\n"
                                    "  - {name: s, from: [c, c2], type: concat}\n",
               {"layer s", "the same rows and columns"}},
        BadNet{"PadOfNothing", std::string(kConv) + "  - {name: p, type: pad_channels}\n", {"layer p", "no channels"}},
        BadNet{"ProductOfUnlikes",
               std::string(kConv) + "  - {name: c2, from: c, type: conv, filters: 4, kernel: 3, pad: same}\n"
                                    "  - {name: s, from: [c, c2], type: multiply}\n",
               {"t.yaml:6", "layer s", "c is 5x10x8", "c2 is 4x10x8", "5x1x1"}},
        BadNet{"GateOfOtherChannels",
               std::string(kConv) + "  - {name: g, from: c, type: global_average_pool}\n"
                                    "  - {name: g2, type: conv, filters: 4, kernel: 1}\n"
                                    "  - {name: s, from: [g2, c], type: multiply}\n",
               {"layer s", "c is 5x10x8", "g2 is 4x1x1"}},
        BadNet{"ProductOfOne",
               std::string(kConv) + "  - {name: j, from: [c], type: multiply}\n",
               {"layer j", "fewer than two"}},
        BadNet{"SliceBeyondTheChannels",
               std::string(kConv) + "  - {name: s, type: slice_channels, first: 3, count: 3}\n",
               {"t.yaml:5", "layer s", "channels 3 to 5", "has 5"}},
        BadNet{"SliceOfNothing",
               std::string(kConv) + "  - {name: s, type: slice_channels, first: 3, count: 0}\n",
               {"layer s", "count is '0'"}},
        BadNet{"ChannelsThatNothingReads",
               std::string(kConv) + "  - {name: s, type: slice_channels, count: 3}\n"
                                    "  - {name: d, type: dense, units: 4}\n",
               {"t.yaml:4", "layer c", "nothing reads channel 3 of its maps"}},
        BadNet{"ShuffleOfUnequalGroups",
               std::string(kConv) + "  - {name: s, type: shuffle_channels, groups: 2}\n",
               {"layer s", "groups is 2", "divides its 5 input channels"}},
        BadNet{"MaximaThatCountPadding",
               std::string(kConv) + "  - {name: p, type: max_pool, kernel: 2, count_padding: true}\n",
               {"layer p", "count_padding"}},
        BadNet{"ImagesReadTwiceByAPerceptron",
               "  - {name: f, type: flatten}\n"
               "  - {name: d1, from: f, type: dense, units: 4}\n"
               "  - {name: l, type: squared_error}\n"
               "  - {name: d2, from: f, type: dense, units: 4}\n",
               {"layer d2", "form a chain"}},
        BadNet{"BiasText", conv("filters: 2, kernel: 3, bias: none"), {"bias", "'none'"}},
        BadNet{
            "SlopeBelowZero", std::string(kConv) + "  - {name: r, type: leaky_relu, slope: -1}\n", {"slope is '-1'"}},
        BadNet{"ClipToNothing",
               std::string(kConv) + "  - {name: r, type: clip, low: 2, high: 2}\n",
               {"layer r", "high is 2, but low is 2"}},
        BadNet{"ClipWithoutLimits", std::string(kConv) + "  - {name: r, type: clip}\n", {"layer r", "low, high, or"}},
        BadNet{"EluBelowZero", std::string(kConv) + "  - {name: r, type: elu, alpha: -1}\n", {"alpha is '-1'"}},
        BadNet{"Relu6WithLimits", std::string(kConv) + "  - {name: r, type: relu6, high: 5}\n", {"layer r", "high"}},
        BadNet{"NormMomentum",
               std::string(kConv) + "  - {name: n, type: batch_norm, momentum: 2}\n",
               {"t.yaml:5", "layer n", "momentum is '2'"}},
        BadNet{"NormOfImagesWithoutConvolution",
               "  - {name: n, type: batch_norm}\n",
               {"layer n", "the net has no convolution, and no dense layer in front of it"}},
        BadNet{"NormOfFlattenedMaps",
               std::string(kConv) + "  - {name: f, type: flatten}\n  - {name: n, type: batch_norm}\n",
               {"layer n", "reads flattened maps of"}},
        BadNet{"ResponseNormSize",
               std::string(kConv) + "  - {name: n, type: response_norm, size: 0}\n",
               {"layer n", "size is '0'"}},
        BadNet{"Optimizer", kConv, {"optimizer is 'adagrad'", "sgd, nesterov or adam"}, {"training.optimizer=adagrad"}},
        BadNet{"Clip", kConv, {"clip is '-1'"}, {"training.clip=-1"}},
        BadNet{"GroupsOfChannels",
               conv("filters: 2, kernel: 3, groups: 2"),
               {"t.yaml:4", "layer c", "groups is 2", "3 input channels and 2 filters"}},
        BadNet{"NoGroups", conv("filters: 2, kernel: 3, groups: 0"), {"groups is '0'"}},
        BadNet{"NoType", "  - {name: c}\n", {"t.yaml:4", "type is missing"}},
        BadNet{"NoName", "  - {type: relu}\n", {"t.yaml:4", "layer number 1", "name is missing"}},
        BadNet{"NameWithDot", "  - {name: a.b, type: relu}\n", {"name is 'a.b'", "letters"}},
        BadNet{"NameTwice", std::string(kConv) + kConv, {"t.yaml:5", "name", "unique"}},
        BadNet{"NameInput", "  - {name: input, type: relu}\n", {"choose another"}},
        BadNet{"FieldTwice", "  - {name: c, type: conv, filters: 1, filters: 2, kernel: 1}\n", {"filters", "twice"}},
        BadNet{"NotAMap", "  - conv\n", {"t.yaml:4", "expected a map"}},
        BadNet{"DropoutOne",
               std::string(kConv) + "  - {name: d, type: dropout, rate: 1}\n",
               {"t.yaml:5", "rate", "less than 1"}},
        BadNet{"DropoutNan", std::string(kConv) + "  - {name: d, type: dropout, rate: nan}\n", {"rate is 'nan'"}},
        BadNet{"PoolWithoutKernel",
               std::string(kConv) + "  - {name: p, type: max_pool}\n",
               {"t.yaml:5", "kernel is missing"}},
        BadNet{"DenseWithoutUnits", "  - {name: d, type: dense}\n", {"units is missing"}},
        BadNet{"ReluWithField", std::string(kConv) + "  - {name: r, type: relu, slope: 1}\n", {"slope is not a field"}},
        BadNet{"ConvAfterFlatten",
               "  - {name: f, type: flatten}\n" + conv("filters: 2, kernel: 1"),
               {"t.yaml:5: layer c", "reads flattened maps of 12x10"}},
        BadNet{"PoolInAPerceptron", "  - {name: p, type: max_pool, kernel: 2}\n", {"layer p"}},
        BadNet{
            "UnknownFrom", "  - {name: c, type: conv, filters: 5, kernel: 3, from: nowhere}\n", {"from", "'nowhere'"}},
        BadNet{"TwoInputs", std::string(kConv) + "  - {name: r, type: relu, from: [c, input]}\n", {"takes one input"}},
        BadNet{"Circle",
               "  - {name: a, type: relu, from: b}\n  - {name: b, type: relu, from: a}\n" + std::string(kConv),
               {"cycle"}},
        BadNet{"ReadTwice",
               std::string(kConv) + "  - {name: r, type: relu}\n  - {name: s, type: relu, from: c}\n",
               {"layer"}},
        BadNet{"HugeDense",
               "  - {name: d, type: dense, units: 1000000}\n  - {name: e, type: dense, units: 1000000}\n",
               {"the limits are"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Files, BadNets,
    testing::Values(
        BadNet{"Empty", "!", {"t.yaml:1"}}, BadNet{"List", "!- a\n- b\n", {"t.yaml:1", "name, input, layers"}},
        BadNet{"Syntax", "!name: test\ninput: {channels: 3\nlayers: ]\n", {"t.yaml:3", "YAML"}},
        BadNet{"OpenBracket",
               "!name: test\ninput: {channels: 3\nlayers: []\n",
               {"t.yaml:3", "a bracket or a comma is missing here or at the end of the line before"}},
        BadNet{"NoInput", "name: x\nlayers:\n  - {name: a, type: relu}\n", {"input is missing"}},
        BadNet{"NoLayers", "name: x\ninput: {channels: 1, height: 1, width: 1}\n", {"layers is missing"}},
        BadNet{
            "EmptyLayers", "name: x\ninput: {channels: 1, height: 1, width: 1}\nlayers: []\n", {"t.yaml:3", "layers"}},
        BadNet{"UnknownBlock",
               "name: x\ninput: {channels: 1, height: 1, width: 1}\nlayers: [a]\ntrainning: {}\n",
               {"t.yaml:4", "did you mean training"}},
        BadNet{"InputZero",
               "name: x\ninput: {channels: 0, height: 1, width: 1}\nlayers: [a]\n",
               {"t.yaml:2", "channels is '0'"}},
        BadNet{
            "NoLoss", file("  - {name: d, type: dense, units: 4}\n"), {"t.yaml:4", "no loss", "softmax_cross_entropy"}},
        BadNet{"OneClass",
               file("  - {name: d, type: dense, units: 1}\n  - {name: l, type: squared_error}\n"),
               {"t.yaml:5", "at least two"}},
        BadNet{"TwoLosses",
               file("  - {name: d, type: dense, units: 4}\n  - {name: l, type: squared_error}\n"
                    "  - {name: e, type: dense, units: 4, from: input}\n  - {name: m, type: squared_error}\n"),
               {"t.yaml:7", "second loss; a net without convolutions"}},
        BadNet{"LossesOfOtherClasses",
               file("  - {name: c, type: conv, filters: 3, kernel: 2}\n  - {name: d, type: dense, units: 4}\n"
                    "  - {name: l, type: squared_error}\n  - {name: e, from: c, type: dense, units: 5}\n"
                    "  - {name: m, type: squared_error}\n"),
               {"t.yaml:8", "has 5 outputs, but that of another loss has 4"}},
        BadNet{"MapIntoTheLoss",
               file(std::string(kConv) + "  - {name: r, type: relu}\n  - {name: l, type: softmax_cross_entropy}\n"),
               {"t.yaml:6: layer l", "the output of layer c", "5x10x8", "put a dense layer in front of the loss"}},
        BadNet{"FlattenedMapIntoTheLoss",
               file(std::string(kConv) + "  - {name: f, type: flatten}\n  - {name: l, type: squared_error}\n"),
               {"t.yaml:6: layer l", "5x10x8", "global_average_pool"}},
        BadNet{"ImageIntoTheLoss",
               file("  - {name: f, type: flatten}\n  - {name: l, type: squared_error}\n"),
               {"t.yaml:5", "no layer has weights"}},
        BadNet{"TooFewClassNames",
               "name: x\ninput: {channels: 1, height: 4, width: 4}\nclasses: [cat, dog]\nlayers:\n"
               "  - {name: d, type: dense, units: 10}\n  - {name: l, type: squared_error}\n",
               {"t.yaml:3", "names 2 classes", "10 outputs", "--set d.units=2"}},
        BadNet{"TooManyClassNames",
               "name: x\ninput: {channels: 1, height: 4, width: 4}\nclasses: [a, b, c]\nlayers:\n"
               "  - {name: c, type: conv, filters: 2, kernel: 3}\n  - {name: p, type: global_average_pool}\n"
               "  - {name: l, type: softmax_cross_entropy}\n",
               {"t.yaml:3", "names 3 classes", "2 outputs", "--set c.filters=3"}},
        BadNet{"LossWeight", file("  - {name: l, type: squared_error, weight: -1}\n"), {"t.yaml:4", "weight"}},
        BadNet{"LossNotLast",
               file("  - {name: l, type: squared_error}\n  - {name: d, type: dense, units: 4}\n"),
               {"t.yaml:4", "nothing may follow a loss"}},
        BadNet{"TooLarge", "!" + std::string((1 << 20) + 1, ' '), {"t.yaml", "more than 1048576 bytes"}},
        BadNet{"DeepNesting", "!" + std::string(100000, '['), {"t.yaml"}}),
    [](const auto& info) { return info.param.name; });

BadNet training(const std::string& name, const std::string& block, std::vector<std::string> expected) {
  return {name, std::string(kHead) + kConv + kTail + block + "\n", std::move(expected)};
}

INSTANTIATE_TEST_SUITE_P(
    Training, BadNets,
    testing::Values(training("Batch", "training: {batch: 0}", {"t.yaml:7", "batch is '0'"}),
                    training("Rate", "training: {learning_rate: -1}", {"learning_rate is '-1'"}),
                    training("RateText", "training: {learning_rate: fast}", {"'fast'", "expected a number"}),
                    training("Patience", "training: {patience: -1}", {"patience is '-1'"}),
                    training("Run", "run: [1, 2]", {"t.yaml:7", "run is a list; expected a map of texts"}),
                    training("Momentum", "training: {momentum: 1.5}", {"momentum is '1.5'"}),
                    training("Schedule", "training: {schedule: {kind: linear}}",
                             {"'linear'", "constant, step, cosine or snapshots"}),
                    training("WarmUp", "training: {epochs: 3, schedule: {kind: cosine, warm_up: 3}}",
                             {"warm_up is 3", "shorter than the 3 epochs"}),
                    training("ScheduleEvery", "training: {schedule: {kind: step}}", {"every is missing"}),
                    training("Flip", "augment: {flip: perhaps}", {"flip is 'perhaps'", "true or false"}),
                    training("Crop", "augment: {crop: 50}", {"crop is '50'"})),
    [](const auto& info) { return info.param.name; });

/// A training block with the schedule `snapshots` and these further fields.
BadNet snapshots(const std::string& name, const std::string& fields, std::vector<std::string> expected) {
  return training(name, "training: {epochs: 10, schedule: {kind: snapshots}" + fields + "}", std::move(expected));
}

INSTANTIATE_TEST_SUITE_P(
    Ensembles, BadNets,
    testing::Values(
        snapshots("NoCycles", "", {"t.yaml:7", "cycles is missing", "cycles: 5"}),
        snapshots("ZeroCycles", ", cycles: 0", {"t.yaml:7", "cycles is '0'"}),
        snapshots("CyclesText", ", cycles: some", {"cycles is 'some'"}),
        snapshots("UnevenCycles", ", cycles: 4", {"cycles is 4", "the 10 epochs are no multiple", "12 epochs"}),
        snapshots("MoreCyclesThanEpochs", ", cycles: 11", {"cycles is 11", "11 epochs"}),
        snapshots("PatienceOfCycles", ", cycles: 5, patience: 3", {"patience cannot stand beside", "snapshots"}),
        training("WarmUpOfACycle", "training: {epochs: 10, schedule: {kind: snapshots, warm_up: 2}, cycles: 5}",
                 {"warm_up of 2 epochs", "a cycle, which has 2"}),
        training("CyclesOfCosine", "training: {schedule: {kind: cosine}, cycles: 5}",
                 {"t.yaml:7", "cycles has a meaning only beside schedule: {kind: snapshots}"}),
        training("NoTeacher", "training: {teacher: []}", {"t.yaml:7", "teacher is no text", "the folder of a run"}),
        training("TeacherMap", "training: {teacher: {run: a}}", {"t.yaml:7", "teacher is no text"}),
        training("EmptyTeacher", "training: {teacher: ['']}", {"t.yaml:7", "no path", "an ONNX model"}),
        training("TeacherOfLists", "training: {teacher: [[a], b]}", {"t.yaml:7", "no path"}),
        training("TeacherTwice", "training: {teacher: [a, b, a]}", {"t.yaml:7", "'a' twice"}),
        training("LongTeacher", "training: {teacher: " + std::string(5000, 'a') + "}", {"a path that is too long"}),
        training("TemperatureAlone", "training: {temperature: 4}",
                 {"t.yaml:7", "temperature has a meaning only beside"}),
        training("MixAlone", "training: {mix: 0.5}", {"t.yaml:7", "mix has a meaning only beside teacher"}),
        training("ColdTeacher", "training: {teacher: a, temperature: 0}", {"temperature is '0'"}),
        training("HotTeacher", "training: {teacher: a, temperature: inf}", {"temperature is 'inf'"}),
        training("MixOfMore", "training: {teacher: a, mix: 1.5}", {"mix is '1.5'"}),
        training("MixNan", "training: {teacher: a, mix: nan}", {"mix is 'nan'"}),
        BadNet{"TeacherOfSquaredError",
               file("  - {name: out, type: dense, units: 4}\n  - {name: loss, type: squared_error}\n"
                    "training: {teacher: a}\n"),
               {"t.yaml:5", "layer loss", "training.teacher needs", "softmax_cross_entropy"}}),
    [](const auto& info) { return info.param.name; });

BadNet set(const std::string& name, const std::string& override, std::vector<std::string> expected) {
  return {name, kConv, std::move(expected), {override}};
}

INSTANTIATE_TEST_SUITE_P(
    Overrides, BadNets,
    testing::Values(set("UnknownLayer", "d.filters=3", {"--set d.filters=3", "no layer 'd'", "c, out, loss"}),
                    set("UnknownField", "c.colour=red", {"colour", "set by --set c.colour=red"}),
                    set("BadValue", "c.filters=0", {"set by --set c.filters=0", "filters is '0'"}),
                    set("NoValue", "c.filters=", {"OWNER.FIELD=VALUE"}),
                    set("NoEquals", "c.filters", {"OWNER.FIELD=VALUE"}), set("NoField", "c=3", {"OWNER.FIELD=VALUE"}),
                    set("TooDeep", "a.b.c.d=3", {"OWNER.FIELD=VALUE"}), set("Empty", "", {"OWNER.FIELD=VALUE"}),
                    set("BadYaml", "c.filters=[", {"--set c.filters=["}),
                    set("IntoAScalar", "c.filters.deep=1", {"--set"}),
                    set("TrainingField", "training.speed=3", {"speed", "set by --set training.speed=3"})),
    [](const auto& info) { return info.param.name; });

TEST(NetFiles, MissingFolderAndUnreadable) {
  const auto error_of = [](const std::string& file) -> std::string {
    try {
      read_net(file);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_of("/nowhere/net.yaml"), HasSubstr("/nowhere/net.yaml: the file cannot be read"));
  EXPECT_THAT(error_of("/proc"), HasSubstr("the path is a folder"));
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

/// Files of nearly the largest size that is read: deep, of many fields, of aliases within each other, of themselves.
TEST(NetFiles, HostileOnesAreRefused) {
  const std::string net = file(std::string(kConv) + kTail);
  const std::map<std::string, std::string> hostile{
      {"deep lists", "a: " + repeated("[", 300000)},
      {"deep lists that end", "a: " + repeated("[", 300000) + repeated("]", 300000)},
      {"deep maps", "a: " + repeated("{a: ", 200000)},
      {"deep block lists", repeated("- ", 300000) + "x"},
      {"deep keys", repeated("? ", 300000)},
      {"tags", repeated("!a ", 200000)},
      {"anchors", "a: " + repeated("&a ", 200000)},
      {"an alias of itself", "&r\nname: x\ninput: *r\nlayers: *r\n"},
      {"a name that holds itself", "name: &a [*a]\ninput: {channels: 1, height: 1, width: 1}\nlayers: []\n"},
      {"layers that hold themselves", "name: x\ninput: {channels: 1, height: 1, width: 1}\nlayers: &l\n  - *l\n"},
      {"many fields", net + repeated("k: 1\n", 100000)},
      {"many layers", kHead + repeated(kConv, 10000)},
      {"many inputs",
       file(std::string(kConv) + "  - {name: s, type: concat, from: [" + repeated("c,", 200000) + "c]}\n" + kTail)},
      {"no bytes of YAML", std::string(100000, '\0')},
      {"infinite", net + "training: {learning_rate: .inf}\n"},
      {"not a number", net + "training: {learning_rate: .nan}\n"},
      {"too large", net + "training: {learning_rate: 1e999}\n"},
      {"too large a file", net + std::string(std::size_t{1} << 20, ' ')}};
  for (const auto& [what, text] : hostile) {
    try {
      parse_net(text, "hostile.yaml");
      ADD_FAILURE() << what << " was accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("hostile.yaml")) << what;
      EXPECT_LT(std::string(error.what()).size(), 2000U) << what;
    }
  }
}

TEST(NetFiles, AnAliasBombDoesNoHarm) {
  std::string text = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c <= 'z'; ++c) {
    text += fmt::format("{}: &{} [", c, c);
    for (int i = 0; i < 9; ++i) text += fmt::format("{}*{}", i > 0 ? ", " : "", static_cast<char>(c - 1));
    text += "]\n";
  }
  EXPECT_THROW(parse_net(text, "bomb.yaml"), Error);
}

}  // namespace
}  // namespace convoy
