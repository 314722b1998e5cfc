// Tests that checkpoints are written and read back, that a damaged one is replaced by the one before, and that a
// checkpoint of another net is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "core/error.hpp"
#include "core/random.hpp"
#include "model/checkpoint.hpp"
#include "model/safetensors.hpp"
#include "tests/support/files.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

Cut small_net(int filters = 3) {
  Cut cut;
  cut.trunk = {{.name = "conv1",
                .channels = 2,
                .height = 4,
                .width = 4,
                .conv = {.filters = filters, .kernel_h = 3, .kernel_w = 3},
                .after = {Activation::relu}}};
  cut.heads = {{.maps = {filters, 2, 2},
                .layers = {{.name = "dense1", .spec = Dense{4}}, {.name = "loss", .spec = SoftmaxCrossEntropy{}}}}};
  return cut;
}

template <class Model, class Visit>
void visit_tensors(Model& model, Visit visit) {
  for (auto& s : model.trunk) {
    for_each_tensor(s, visit);
  }
  for (auto& s : model.head) {
    for (auto* parameter : {&s.weights, &s.bias}) {
      visit(parameter->value);
      for (auto& moment : parameter->moments) visit(moment);
    }
  }
}

ModelState drawn(const Cut& cut, std::uint64_t seed) {
  ModelState model;
  for (const Stage& stage : cut.trunk) model.trunk.push_back(zero_state(stage, stage.conv.filters));
  model.head = Heads(cut, 1).states();
  Random random(seed, 0);
  visit_tensors(model, [&](Tensor& tensor) {
    for (float& value : tensor.span()) value = random.normal();
  });
  return model;
}

std::vector<float> all_values(const ModelState& model) {
  std::vector<float> values;
  visit_tensors(model, [&](const Tensor& t) { values.insert(values.end(), t.span().begin(), t.span().end()); });
  return values;
}

const RunIdentity kRun{.fingerprint = "net seed batch data", .length = {.epochs = 9, .batches = 100, .images = 50}};

TrainingState sample(int batch) {
  return {.model = std::make_shared<const ModelState>(drawn(small_net(), static_cast<std::uint64_t>(batch))),
          .progress = {.epoch = 2, .batch = batch, .epoch_loss = 0.1 + batch, .epoch_correct = 17}};
}

void write_sample(const std::string& folder, int batch) { write_checkpoint(folder, small_net(), sample(batch), kRun); }

TEST(Checkpoints, GoThereAndBackToTheBit) {
  const TemporaryFolder folder;
  const TrainingState written = sample(5);
  write_checkpoint(folder.path(), small_net(), written, kRun);
  std::string notice;
  RunIdentity run;
  const TrainingState read =
      read_checkpoint(folder.path(), small_net(), notice, [&](const RunIdentity& of_file) { run = of_file; });
  EXPECT_EQ(notice, "");
  EXPECT_EQ(all_values(*read.model), all_values(*written.model));
  EXPECT_EQ(read.progress, written.progress);
  EXPECT_EQ(run.fingerprint, kRun.fingerprint);
  EXPECT_EQ(run.length, kRun.length);
}

TEST(Checkpoints, ServeAsWeights) {
  const TemporaryFolder folder;
  const TrainingState written = sample(5);
  write_checkpoint(folder.path(), small_net(), written, kRun);
  const ModelState read = read_weights(folder.path() + "/checkpoint.safetensors", small_net());
  const auto expected = written.model->trunk[0].weights().span();
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), read.trunk[0].weights().span().begin()));
}

TEST(Checkpoints, TheOneBeforeServesWhenTheLastIsDamaged) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/checkpoint.safetensors";
  write_sample(folder.path(), 1);
  write_sample(folder.path(), 2);
  const Bytes sound = read_file(file);
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, sound.size() / 2, sound.size() - 1}) {
    write_file(file, {sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(length)});
    std::string notice;
    EXPECT_EQ(read_checkpoint(folder.path(), small_net(), notice).progress.batch, 1);
    EXPECT_THAT(notice, HasSubstr(file + ": "));
    EXPECT_THAT(notice, HasSubstr("the run goes on from the checkpoint before it, " + folder.path() +
                                  "/checkpoint-previous.safetensors, after step 201"));
  }
  std::string notice;
  EXPECT_EQ(read_checkpoint(folder.path(), small_net(), notice).progress.batch, 1);
}

/// Otherwise the next checkpoint would push the sound one out, and a crash in this moment would leave none.
TEST(Checkpoints, ADamagedOneIsKeptUnderAnotherName) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/checkpoint.safetensors";
  std::string notice;
  for (int number = 1; number < 3; ++number) {
    write_sample(folder.path(), 1);
    write_sample(folder.path(), 2);
    write_file(file, {1, 2, 3});
    read_checkpoint(folder.path(), small_net(), notice);
    const std::string aside = fmt::format("{}/checkpoint-damaged-{}.safetensors", folder.path(), number);
    EXPECT_THAT(notice, HasSubstr("the file that cannot be used is now " + aside));
    EXPECT_EQ(read_file(aside), (Bytes{1, 2, 3}));
    EXPECT_FALSE(fs::exists(file));
  }
  write_sample(folder.path(), 3);
  fs::remove(file);
  EXPECT_EQ(read_checkpoint(folder.path(), small_net(), notice).progress.batch, 1);
}

TEST(Checkpoints, AFolderInItsPlaceIsAsADamagedFile) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/checkpoint.safetensors";
  write_sample(folder.path(), 1);
  write_sample(folder.path(), 2);
  fs::remove(file);
  fs::create_directories(file + "/inside");
  std::string notice;
  EXPECT_EQ(read_checkpoint(folder.path(), small_net(), notice).progress.batch, 1);
  write_sample(folder.path(), 3);
  EXPECT_EQ(read_checkpoint(folder.path(), small_net(), notice).progress.batch, 3);
}

/// What a run says to checkpoints of `fingerprint` alone.
Accept only(const std::string& fingerprint) {
  return [fingerprint](const RunIdentity& run) {
    if (run.fingerprint != fingerprint) fail("not of this run");
  };
}

TEST(Checkpoints, OfAnotherRunAreAsDamagedUnlessAllAre) {
  const TemporaryFolder folder;
  write_sample(folder.path(), 1);
  RunIdentity other = kRun;
  other.fingerprint = "another run";
  write_checkpoint(folder.path(), small_net(), sample(2), other);
  std::string notice;
  try {
    read_checkpoint(folder.path(), small_net(), notice, only("a third run"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "not of this run");
  }
  const Accept mine = only("net seed batch data");
  EXPECT_EQ(read_checkpoint(folder.path(), small_net(), notice, mine).progress.batch, 1);
}

TEST(Checkpoints, BothDamagedAreBothNamed) {
  const TemporaryFolder folder;
  for (const char* file : {"/checkpoint.safetensors", "/checkpoint-previous.safetensors"}) {
    write_file(folder.path() + file, {1, 2, 3});
  }
  std::string notice;
  try {
    read_checkpoint(folder.path(), small_net(), notice);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/checkpoint.safetensors: 3 bytes are too few"));
    EXPECT_THAT(error.what(), HasSubstr("/checkpoint-previous.safetensors: 3 bytes are too few"));
  }
}

TEST(Checkpoints, NoneAtAllIsAnError) {
  const TemporaryFolder folder;
  std::string notice;
  try {
    read_checkpoint(folder.path(), small_net(), notice);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("checkpoint.safetensors"));
  }
}

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
    TrainingState next{std::make_shared<const ModelState>(model), sample(6).progress};
    EXPECT_THROW(write_checkpoint(folder.path(), cut, next, kRun), Diverged) << "a moment";
    model.head[0].bias.value.span().back() = bad;
    EXPECT_THROW(write_weights(weights, cut, model, {.name = "small"}), Diverged);
    EXPECT_THROW(write_best(weights, cut, model, {.name = "small"}, {.epoch = 1}), Diverged);
  }
  std::string notice;
  EXPECT_EQ(read_checkpoint(folder.path(), cut, notice).progress, sample(5).progress);
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
  write_checkpoint(folder.path(), cut, {std::make_shared<const ModelState>(sound), sample(5).progress}, kRun);
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

struct BadMetadata {
  std::string name;
  std::map<std::string, std::string> changed;  ///< an empty value removes the entry
  std::string says;
};

void PrintTo(const BadMetadata& bad, std::ostream* out) { *out << bad.name; }

class BadCheckpoints : public testing::TestWithParam<BadMetadata> {};

/// The checksums hold, as in a file that somebody made.
TEST_P(BadCheckpoints, AreRefused) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/checkpoint.safetensors";
  write_sample(folder.path(), 5);
  SafetensorsFile contents = read_safetensors(file);
  for (const auto& [key, value] : GetParam().changed) {
    contents.metadata[key] = value;
    if (value.empty()) contents.metadata.erase(key);
  }
  write_safetensors(file, contents);
  std::string notice;
  try {
    read_checkpoint(folder.path(), small_net(), notice);
    FAIL() << "the checkpoint was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(file));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().says));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadCheckpoints,
    testing::Values(BadMetadata{"Format", {{"format", "convoy checkpoint 1"}}, "expected 'convoy checkpoint 2'"},
                    BadMetadata{"NoFormat", {{"format", ""}}, "the file has no 'format'"},
                    BadMetadata{"NegativePosition", {{"epoch", "-2"}}, "its 'epoch' is '-2'"},
                    BadMetadata{"PositionIsAWord", {{"batch", "x"}}, "its 'batch' is 'x'"},
                    BadMetadata{"NoPosition", {{"batch", ""}}, "the file has no 'batch'"},
                    BadMetadata{"HugePosition", {{"batch", "99999999999999999999"}}, "its 'batch' is '9999"},
                    BadMetadata{"BatchBeyondTheEpoch", {{"batch", "101"}}, "is batch 101 of epoch 2"},
                    BadMetadata{"EpochBeyondTheRun", {{"epoch", "10"}}, "but the run has 9 epochs of 100 batches"},
                    BadMetadata{"BeyondTheLastEpoch", {{"epoch", "9"}}, "is batch 5 of epoch 9"},
                    BadMetadata{"MoreCorrectThanSeen", {{"epoch_correct", "251"}}, "251 images of the epoch"},
                    BadMetadata{"LossOfNoImages", {{"batch", "0"}, {"epoch_correct", "0"}}, "but only 0 were seen"},
                    BadMetadata{"NoFingerprint", {{"fingerprint", ""}}, "the file has no 'fingerprint'"},
                    BadMetadata{"LossIsAWord", {{"epoch_loss", "abc"}}, "its 'epoch_loss' is 'abc'"},
                    BadMetadata{"LossIsNaN", {{"epoch_loss", "nan"}}, "its 'epoch_loss' is 'nan'"},
                    BadMetadata{"LossIsInfinite", {{"epoch_loss", "inf"}}, "its 'epoch_loss' is 'inf'"}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace convoy
