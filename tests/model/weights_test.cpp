// Tests that weights are read back, alone and without some layers, and that those of another net and values that are no
// numbers are refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "model/safetensors.hpp"
#include "tests/model/small_model.hpp"
#include "tests/support/files.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

std::string error_of_weights(const std::string& file, const Cut& cut) {
  try {
    read_weights(file, cut);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Weights, OfAnotherNetAreRefusedByTensor) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/weights.safetensors";
  write_weights(file, small_net(), drawn(small_net(), 1), {.name = "small"});
  EXPECT_EQ(error_of_weights(file, small_net()), "");
  EXPECT_THAT(error_of_weights(file, small_net(4)), HasSubstr("tensor conv1.weight has the shape [3,2,3,3]"));
  Cut renamed = small_net();
  renamed.heads[0].layers[0].name = "dense9";
  EXPECT_THAT(error_of_weights(file, renamed), HasSubstr("the file has no tensor dense9.weight"));
  Cut shorter = small_net();
  shorter.trunk.clear();
  shorter.heads[0].maps = {3, 2, 2};
  EXPECT_THAT(error_of_weights(file, shorter), HasSubstr("the net has no place for its tensor conv1.weight"));
  EXPECT_THAT(error_of_weights(folder.path() + "/none", small_net()), HasSubstr("missing"));
}

/// The net has been given another last layer.
TEST(Weights, LoadWithoutSomeLayers) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/weights.safetensors";
  const ModelState written = drawn(small_net(), 1);
  write_weights(file, small_net(), written, {.name = "small"});
  Cut other = small_net();
  other.heads[0].layers[0].spec = Dense{7};
  EXPECT_THAT(error_of_weights(file, other),
              HasSubstr("convoy-master train NET --weights " + file + " --except dense1"));
  const ModelState initial = drawn(other, 2);
  const ModelState read = read_weights(file, other, {"dense1"}, initial);
  const auto values = [](const Tensor& tensor) {
    return std::vector<float>{tensor.span().begin(), tensor.span().end()};
  };
  EXPECT_EQ(values(read.trunk[0].parameters[0].value), values(written.trunk[0].parameters[0].value));
  EXPECT_EQ(values(read.head[0].weights.value), values(initial.head[0].weights.value));
  EXPECT_EQ(values(read.head[0].bias.value), values(initial.head[0].bias.value));

  other.heads[0].layers[0].name = "fresh";
  EXPECT_NO_THROW(read_weights(file, other, {"fresh", "dense1"}, drawn(other, 2)));
  try {
    read_weights(file, other, {"dense2"}, drawn(other, 2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("--except dense2"), HasSubstr("the net has conv1, fresh")));
  }
}

/// A layer with another number of units has other weights itself, and so has the layer behind it: one error names both.
TEST(Weights, SayAllLayersThatMustBeLeftOut) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/weights.safetensors";
  const auto net = [](int units) {
    Cut cut = small_net();
    cut.heads[0].layers.insert(cut.heads[0].layers.begin(), {.name = "dense0", .spec = Dense{units}});
    return cut;
  };
  write_weights(file, net(5), drawn(net(5), 1), {.name = "small"});
  const std::string way = "convoy-master train NET --weights " + file + " --except dense0 --except dense1";
  EXPECT_THAT(error_of_weights(file, net(6)), testing::EndsWith(way));
  try {
    read_weights(file, net(6), {"dense0"}, drawn(net(6), 2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::EndsWith(way));
  }
  EXPECT_NO_THROW(read_weights(file, net(6), {"dense0", "dense1"}, drawn(net(6), 2)));
  EXPECT_THAT(error_of_weights(file, small_net()), testing::EndsWith("--except dense1 --except dense0"))
      << "the net has no place for dense0";
  Cut other = net(5);
  other.trunk[0].name = "other1";
  for (auto& layer : other.heads[0].layers) layer.name = "other " + layer.name;
  EXPECT_THAT(error_of_weights(file, other), testing::Not(HasSubstr("--except"))) << "no layer fits";
}

TEST(Weights, OfTheBestEpochSayWhichItIs) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/best.safetensors";
  std::string notice;
  EXPECT_EQ(read_best(file, notice).epoch, 0);
  write_best(file, small_net(), drawn(small_net(), 1), {.name = "small"}, {.epoch = 4, .accuracy = 0.8125});
  EXPECT_EQ(read_best(file, notice).epoch, 4);
  EXPECT_EQ(read_best(file, notice).accuracy, 0.8125);
  EXPECT_EQ(error_of_weights(file, small_net()), "") << "they are weights as any";
  EXPECT_EQ(notice, "");
  write_file(file, {1, 2, 3});
  EXPECT_EQ(read_best(file, notice).epoch, 0);
  EXPECT_THAT(notice, HasSubstr("the best epoch is looked for anew"));
}

/// Files with such values would be refused on load.
TEST(Weights, ThatAreNoNumbersAreNeverWritten) {
  const TemporaryFolder folder;
  const std::string weights = folder.path() + "/weights.safetensors";
  const Cut cut = small_net();
  write_sample(folder.path(), 5);
  write_weights(weights, cut, drawn(cut, 1), {.name = "small"});
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    ModelState model = drawn(cut, 2);
    model.trunk[0].parameters[0].moments[0].span().back() = bad;
    TrainingState next{std::make_shared<const ModelState>(model), state_after(6).progress};
    EXPECT_THROW(write_checkpoint(folder.path(), cut, next, kRun), Diverged) << "a moment";
    model.head[0].bias.value.span().back() = bad;
    EXPECT_THROW(write_weights(weights, cut, model, {.name = "small"}), Diverged);
    EXPECT_THROW(write_best(weights, cut, model, {.name = "small"}, {.epoch = 1}), Diverged);
  }
  std::string notice;
  EXPECT_EQ(read_checkpoint(folder.path(), cut, notice).progress, state_after(5).progress);
  EXPECT_EQ(notice + error_of_weights(weights, cut), "");
}

/// A batch norm's layer, whose variances are checked.
Cut normed_net() {
  Cut cut = small_net();
  cut.trunk[0].after.insert(cut.trunk[0].after.begin(), BatchNorm{.name = "norm1"});
  return cut;
}

struct BadValue {
  std::string name;
  std::string tensor;
  float value;
};

void PrintTo(const BadValue& bad, std::ostream* out) { *out << bad.name; }

class BadValues : public testing::TestWithParam<BadValue> {};

/// The files are whole, and their checksums hold.
TEST_P(BadValues, AreRefusedOnLoad) {
  const TemporaryFolder folder;
  const BadValue& bad = GetParam();
  const Cut cut = normed_net();
  ModelState sound = drawn(cut, 1);
  const std::vector<ParameterSpec> specs = parameters_of(cut.trunk[0], cut.trunk[0].conv.filters);
  for (std::size_t p = 0; p < specs.size(); ++p) {
    if (!specs[p].name.ends_with("running_var")) continue;
    std::ranges::fill(sound.trunk[0].parameters[p].value.span(), 0.5F);
  }
  const std::string file = folder.path() + "/checkpoint.safetensors";
  write_checkpoint(folder.path(), cut, {std::make_shared<const ModelState>(sound), state_after(5).progress}, kRun);
  EXPECT_EQ(error_of_weights(file, cut), "");

  SafetensorsFile contents = read_safetensors(file);
  std::ranges::find(contents.tensors, bad.tensor, &NamedTensor::name)->values.back() = bad.value;
  write_safetensors(file, contents);
  std::string notice;
  try {
    read_checkpoint(folder.path(), cut, notice);
    FAIL() << "the checkpoint was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(file));
    EXPECT_THAT(error.what(), HasSubstr("of tensor " + bad.tensor + " is "));
  }
  if (bad.tensor.ends_with("velocity")) return;
  EXPECT_THAT(error_of_weights(file, cut), HasSubstr("of tensor " + bad.tensor + " is "));
  const std::string layer = bad.tensor.substr(0, bad.tensor.find('.'));
  EXPECT_NO_THROW(read_weights(file, cut, {layer}, sound)) << "its values are not taken";
}

INSTANTIATE_TEST_SUITE_P(Table, BadValues,
                         testing::Values(BadValue{"NaN", "conv1.weight", std::numeric_limits<float>::quiet_NaN()},
                                         BadValue{"Infinite", "dense1.bias", std::numeric_limits<float>::infinity()},
                                         BadValue{"NegativeVariance", "norm1.running_var", -0.25F},
                                         BadValue{"NaNVelocity", "conv1.weight.velocity",
                                                  std::numeric_limits<float>::quiet_NaN()}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace convoy
