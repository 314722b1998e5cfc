// Tests that checkpoints are written and read back, and that a damaged one is replaced by the one before.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/error.hpp"
#include "model/safetensors.hpp"
#include "tests/model/small_model.hpp"
#include "tests/support/files.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

TEST(Checkpoints, GoThereAndBackToTheBit) {
  const TemporaryFolder folder;
  const TrainingState written = state_after(5);
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

/// A checkpoint with the velocity of an outer step.
TrainingState outer_sample() {
  const TrainingState plain = state_after(5);
  ModelState model = *plain.model;
  model.outer = std::make_shared<const ModelState>(drawn(without_moments(small_net()), 6));
  return {.model = std::make_shared<const ModelState>(std::move(model)), .progress = plain.progress};
}

TEST(Checkpoints, KeepTheVelocityOfAnOuterStepToTheBit) {
  const TemporaryFolder folder;
  const TrainingState written = outer_sample();
  write_checkpoint(folder.path(), small_net(), written, kRun);
  std::string notice;
  const TrainingState read = read_checkpoint(folder.path(), small_net(), notice);
  EXPECT_EQ(notice, "");
  EXPECT_EQ(all_values(*read.model), all_values(*written.model));
  ASSERT_TRUE(read.model->outer);
  EXPECT_EQ(all_values(*read.model->outer), all_values(*written.model->outer));
}

TEST(Checkpoints, ServeAsWeights) {
  const TemporaryFolder folder;
  const TrainingState written = outer_sample();
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
  write_checkpoint(folder.path(), small_net(), state_after(2), other);
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
