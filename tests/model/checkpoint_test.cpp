// Tests that checkpoints are written and read back, that a damaged one is replaced by the one before, and that a
// checkpoint of another net is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/error.hpp"
#include "core/random.hpp"
#include "model/checkpoint.hpp"
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

constexpr const char* kFingerprint = "net seed batch data";

TrainingState sample(int batch) {
  return {.model = std::make_shared<const ModelState>(drawn(small_net(), static_cast<std::uint64_t>(batch))),
          .progress = {.epoch = 2, .batch = batch, .epoch_loss = 0.1 + batch, .epoch_correct = 17}};
}

void write_sample(const std::string& folder, int batch) {
  write_checkpoint(folder, small_net(), sample(batch), kFingerprint);
}

TEST(Checkpoints, GoThereAndBackToTheBit) {
  const TemporaryFolder folder;
  const TrainingState written = sample(5);
  write_checkpoint(folder.path(), small_net(), written, kFingerprint);
  std::string notice;
  std::string fingerprint;
  const TrainingState read =
      read_checkpoint(folder.path(), small_net(), notice, [&](const std::string& of_file) { fingerprint = of_file; });
  EXPECT_EQ(notice, "");
  EXPECT_EQ(all_values(*read.model), all_values(*written.model));
  EXPECT_EQ(read.progress, written.progress);
  EXPECT_EQ(fingerprint, kFingerprint);
}

TEST(Checkpoints, ServeAsWeights) {
  const TemporaryFolder folder;
  const TrainingState written = sample(5);
  write_checkpoint(folder.path(), small_net(), written, kFingerprint);
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
    EXPECT_THAT(notice, HasSubstr("the run goes on from the checkpoint before it"));
  }
  fs::remove(file);
  std::string notice;
  EXPECT_EQ(read_checkpoint(folder.path(), small_net(), notice).progress.batch, 1);
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

struct BadMetadata {
  std::string name;
  std::string from;
  std::string to;
  std::string says;
};

void PrintTo(const BadMetadata& bad, std::ostream* out) { *out << bad.name; }

class BadCheckpoints : public testing::TestWithParam<BadMetadata> {};

TEST_P(BadCheckpoints, AreRefused) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/checkpoint.safetensors";
  write_sample(folder.path(), 5);
  Bytes bytes = read_file(file);
  const BadMetadata& bad = GetParam();
  ASSERT_EQ(bad.from.size(), bad.to.size());
  const auto at = std::search(bytes.begin(), bytes.end(), bad.from.begin(), bad.from.end());
  ASSERT_NE(at, bytes.end()) << "the file must contain the text that the test replaces";
  std::copy(bad.to.begin(), bad.to.end(), at);
  write_file(file, bytes);
  std::string notice;
  try {
    read_checkpoint(folder.path(), small_net(), notice);
    FAIL() << "the checkpoint was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(file));
    EXPECT_THAT(error.what(), HasSubstr(bad.says));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadCheckpoints,
    testing::Values(BadMetadata{"Format", "convoy checkpoint 1", "convoy checkpoint 7",
                                "expected 'convoy checkpoint 1'"},
                    BadMetadata{"NoFormat", "\"format\"", "\"farmat\"", "the file has no 'format'"},
                    BadMetadata{"NegativePosition", "\"epoch\":\"2\"", "\"epoch\":\"-\"", "its 'epoch' is '-'"},
                    BadMetadata{"PositionIsAWord", "\"batch\":\"5\"", "\"batch\":\"x\"", "its 'batch' is 'x'"},
                    BadMetadata{"NoPosition", "\"batch\"", "\"botch\"", "the file has no 'batch'"},
                    BadMetadata{"NoFingerprint", "\"fingerprint\"", "\"fingerbrint\"", "the file has no 'fingerprint'"},
                    BadMetadata{"LossIsAWord", "\"5.1\"", "\"abc\"", "its 'epoch_loss' is 'abc'"},
                    BadMetadata{"OtherTensor", "conv1.weight.velocity", "conv2.weight.velocity",
                                "the file has no tensor conv1.weight.velocity"}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace convoy
