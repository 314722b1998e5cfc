// Ensembles and snapshots as their users see them.

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/programs/ensembles.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

const std::vector<std::string> kSnapshots{
    "--set", "training.schedule={kind: snapshots}", "--set", "training.cycles=2", "--epochs", "2"};

// ---- snapshots -----------------------------------------------------------------------------------------------------

TEST_F(Ensembles, SnapshotsAreTheWeightsAtTheEndOfEachCycle) {
  train("whole", kSnapshots);
  EXPECT_FALSE(fs::exists(folder("whole/snapshot-3.safetensors")));
  EXPECT_EQ(values_of(folder("whole/snapshot-2.safetensors")), values_of(folder("whole/weights.safetensors")));
  const SafetensorsFile first = read_safetensors(folder("whole/snapshot-1.safetensors"));
  EXPECT_EQ(first.metadata.at("cycle"), "1");
  EXPECT_EQ(first.metadata.at("epoch"), "1");
  // The run ends between the checkpoint and the snapshot, and goes on to the same bits.
  std::vector<std::string> some = kSnapshots;
  some.insert(some.end(), {"--steps", "30"});
  train("cut", some);
  EXPECT_EQ(values_of(folder("cut/weights.safetensors")), values_of(folder("whole/snapshot-1.safetensors")));
  fs::remove(folder("cut/snapshot-1.safetensors"));
  Process rest = master({"train", "--resume", folder("cut")});
  ASSERT_EQ(rest.wait(60s), kSuccess) << rest.output();
  for (const std::string file : {"snapshot-1.safetensors", "snapshot-2.safetensors", "weights.safetensors"}) {
    EXPECT_EQ(bytes("cut/" + file), bytes("whole/" + file)) << file;
  }
  // Another number of epochs would be other cycles.
  EXPECT_THAT(fails({"train", "--resume", folder("cut"), "--epochs", "4"}), HasSubstr("epochs was 2 and is now 4"));
}

// ---- ensembles -----------------------------------------------------------------------------------------------------

TEST_F(Ensembles, OfTwoRunsAreBuiltFromTheirProbabilities) {
  train("a", {"--steps", "25"});
  train("b", {"--steps", "25", "--seed", "2", "--set", "conv1.filters=6"});
  const auto test = json_of({"test", folder("a/config.yaml"), "--weights", folder("a/weights.safetensors")}).back();
  const auto both = json_of({"ensemble", folder("a"), folder("b/weights.safetensors")}).back();
  EXPECT_EQ(both["event"], "ensemble");
  EXPECT_EQ(both["images"], 1000);
  EXPECT_EQ(both["members"][0]["accuracy"], test["accuracy"]);
  EXPECT_NEAR(both["members"][0]["loss"], test["loss"].get<double>(), 1e-9);
  // By the convexity of -log, the loss of a mean of probabilities is at most the mean of the losses.
  EXPECT_LT(both["loss"].get<double>(),
            (both["members"][0]["loss"].get<double>() + both["members"][1]["loss"].get<double>()) / 2);
  // Its answers for single images are the means of the members' answers.
  const std::string image = kSource + "/tests/fuzz/corpus/image/grey.jpg";
  const auto answer = [&](std::vector<std::string> words, const std::string& score) {
    words.insert(words.end(), {"--top", "10"});
    std::map<int, double> scores;
    const nlohmann::json first = json_of(words).front();
    for (const auto& each : first["classes"]) scores[each["class"]] = each[score];
    return scores;
  };
  const auto of = [&](const std::string& run) {
    return answer({"predict", folder(run + "/config.yaml"), image, "--weights", folder(run + "/weights.safetensors")},
                  "probability");
  };
  const auto a = of("a");
  const auto b = of("b");
  const auto mean = answer({"ensemble", folder("a"), folder("b"), "--predict", image}, "probability");
  const auto votes = answer({"ensemble", folder("a"), folder("b"), "--vote", "--predict", image}, "score");
  ASSERT_EQ(mean.size(), 10U);
  double sum = 0.0;
  for (int c = 0; c < 10; ++c) {
    EXPECT_NEAR(mean.at(c), (a.at(c) + b.at(c)) / 2, 1e-6) << c;
    sum += votes.at(c);
  }
  EXPECT_NEAR(sum, 1.0, 1e-5);
}

/// Members that are copies of each other say what each of them says, however they are combined.
TEST_F(Ensembles, OfEqualMembersAreAsGoodAsEach) {
  train("a", {"--steps", "25"});
  fs::copy(folder("a"), folder("copy"));
  for (const auto& how : std::vector<std::vector<std::string>>{{"--mean", "logits"}, {"--vote"}, {}}) {
    std::vector<std::string> words{"ensemble", folder("a"), folder("copy")};
    words.insert(words.end(), how.begin(), how.end());
    const auto found = json_of(words).back();
    EXPECT_EQ(found["accuracy"], found["members"][0]["accuracy"]) << found;
    EXPECT_EQ(found["members"][0]["accuracy"], found["members"][1]["accuracy"]);
    const double loss = found["members"][0]["loss"];
    EXPECT_NEAR(found.value("loss", loss), loss, 1e-5) << found;  // votes have no loss
  }
  Process table = master({"ensemble", folder("a"), folder("copy"), "--threads", "1"});
  ASSERT_EQ(table.wait(60s), kSuccess) << table.output();
  EXPECT_THAT(table.output(), AllOf(HasSubstr("the ensemble (mean of probabilities)"),
                                    HasSubstr("the ensemble is 0.00 points better than its best member")));
}

TEST_F(Ensembles, RunOverSlavesAsAlone) {
  train("a", {"--steps", "25"});
  train("b", {"--steps", "25", "--seed", "2"});
  const std::vector<std::string> members{"ensemble", folder("a"), folder("b")};
  const auto alone = json_of(members).back();
  Process helper = slave("helper");
  std::vector<std::string> over = members;
  over.insert(over.end(), {"--slaves", "1", "--shares", "1", "--listen", endpoint_, "--insecure"});
  const auto found = json_of(over).back();
  EXPECT_NEAR(found["loss"], alone["loss"].get<double>(), 1e-4);
  EXPECT_NEAR(found["accuracy"], alone["accuracy"].get<double>(), 0.002);
}

/// Each member on one machine has the bits of this machine alone, whether members are divided into parts or not.
TEST_F(Ensembles, RunAtOnceOnSlavesToTheSameBits) {
  train("a", {"--steps", "25"});
  train("b", {"--steps", "25", "--seed", "2", "--set", "conv1.filters=7"});
  train("c", {"--steps", "25", "--seed", "3", "--set", "conv2.filters=6"});
  const std::vector<std::string> members{"ensemble", folder("a"), folder("b"), folder("c")};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::vector<std::string> slaves{"--slaves", "2", "--master-jobs", "0", "--listen", endpoint_, "--insecure"};
  Process first = slave("helper-1");
  Process second = slave("helper-2");
  EXPECT_EQ(json_of(with(members, slaves)).back(), json_of(members).back());
  // With more slaves than members, images are divided.
  Process third = slave("helper-3");
  const std::vector<std::string> two{
      "ensemble", folder("a"), folder("b"), "--predict", kSource + "/tests/fuzz/corpus/image",
      "--batch",  "3",         "--threads", "1"};
  Process alone = master(two);
  ASSERT_EQ(alone.wait(100s), kSuccess) << alone.output();
  Process process = master(with(two, {"--slaves", "3", "--master-jobs", "0", "--listen", endpoint_, "--insecure"}));
  ASSERT_EQ(process.wait(100s), kSuccess) << process.output();
  EXPECT_THAT(process.output(), AllOf(HasSubstr("/a, part 1 of 2 begins on helper-"),
                                      HasSubstr("/b, part 2 of 2 begins on helper-"), HasSubstr("machines: ")));
  EXPECT_THAT(process.output(), testing::EndsWith(alone.output())) << "the answers";
  EXPECT_THAT(alone.output(), HasSubstr("image/rgba.png: "));
}

TEST_F(Ensembles, RunInTurnOnAllSlaves) {
  train("a", {"--steps", "25"});
  train("b", {"--steps", "25", "--seed", "2"});
  const std::vector<std::string> members{"ensemble", folder("a"), folder("b")};
  const auto alone = json_of(members).back();
  Process first = slave("helper-1");
  Process second = slave("helper-2");
  std::vector<std::string> over = members;
  over.insert(over.end(), {"--slaves", "2", "--in-turn", "--listen", endpoint_, "--insecure"});
  EXPECT_NEAR(json_of(over).back()["loss"], alone["loss"].get<double>(), 1e-4);
}

/// The time between the beginning of a member on a slave and the death of the slave.
class EnsembleLosses : public Ensembles, public testing::WithParamInterface<std::chrono::milliseconds> {};

TEST_P(EnsembleLosses, GoOnElsewhere) {
  train("a", {"--steps", "25"});
  train("b", {"--steps", "25", "--seed", "2"});
  train("c", {"--steps", "25", "--seed", "3"});
  const std::vector<std::string> members{"ensemble", folder("a"), folder("b"), folder("c"), "--batch", "1"};
  const auto alone = json_of(members).back();
  std::vector<std::string> over = members;
  over.insert(over.end(),
              {"--slaves", "2", "--master-jobs", "0", "--listen", endpoint_, "--insecure", "--threads", "1"});
  Process first = slave("helper-1");
  Process second = slave("helper-2");
  Process process = master(over);
  ASSERT_TRUE(process.wait_for("begins on helper-", 100s)) << process.output();
  const bool is_first = process.output().find("begins on helper-1") != std::string::npos;
  std::this_thread::sleep_for(GetParam());
  (is_first ? first : second).signal(SIGKILL);
  ASSERT_EQ(process.wait(100s), kSuccess) << process.output();
  EXPECT_THAT(process.output(), AllOf(HasSubstr(is_first ? "lost helper-1 (" : "lost helper-2 ("),
                                      HasSubstr("of 1000 batches, and goes on elsewhere")));
  for (const auto& each : alone["members"]) {
    EXPECT_THAT(process.output(),
                HasSubstr(fmt::format("{}: accuracy {:.2f} %, loss {:.4f}", each["member"].get<std::string>(),
                                      100.0 * each["accuracy"].get<double>(), each["loss"].get<double>())));
  }
}

INSTANTIATE_TEST_SUITE_P(Moments, EnsembleLosses, testing::Values(0ms, 700ms),
                         [](const auto& info) { return fmt::format("After{}Milliseconds", info.param.count()); });

TEST_F(Ensembles, EndWithAMemberWhoseOutputsAreNotFinite) {
  train("a", {"--steps", "5"});
  train("b", {"--steps", "5", "--seed", "2"});
  SafetensorsFile weights = read_safetensors(folder("b/weights.safetensors"));
  for (NamedTensor& tensor : weights.tensors) {
    for (float& value : tensor.values) value *= 1e30F;
  }
  write_safetensors(folder("b/weights.safetensors"), weights);
  Process helper = slave("helper");
  std::vector<std::string> members{"ensemble", folder("a"), folder("b"), "--threads", "1"};
  const std::string alone = fails(members);
  members.insert(members.end(), {"--slaves", "1", "--listen", endpoint_, "--insecure"});
  for (const std::string& output : {alone, fails(members)}) {
    EXPECT_THAT(output, HasSubstr("test image 0: " + folder("b") + "'s outputs for this image are not finite numbers"));
  }
}

TEST_F(Ensembles, RefuseWhatHasNoMeaning) {
  train("a", {"--steps", "2", "--data", "glyphs"});
  train("b", {"--steps", "2", "--data", "glyphs", "--seed", "2"});
  EXPECT_THAT(fails({"ensemble", folder("a")}), HasSubstr("an ensemble needs at least two members"));
  EXPECT_THAT(fails({"ensemble"}), HasSubstr("ensemble needs"));
  EXPECT_THAT(fails({"ensemble", folder("a"), folder("b"), "--vote", "--mean", "logits"}), HasSubstr("--mean"));
  EXPECT_THAT(fails({"ensemble", folder("a"), folder("b"), "--device", "paced:240"}), HasSubstr("paced:240"));
  EXPECT_THAT(fails({"ensemble", folder("a"), folder("b"), "--predict", folder("none.png")}), HasSubstr("none.png"));
  EXPECT_THAT(fails({"ensemble", folder("a"), folder("b"), "--in-turn"}), HasSubstr("--in-turn needs --slaves"));
  EXPECT_THAT(fails({"ensemble", folder("a"), folder("b"), "--slaves", "1", "--wire", "bf16", "--master-jobs", "0"}),
              HasSubstr("this is not so with --wire"));
  EXPECT_THAT(fails({"ensemble", folder("a"), folder("b"), "--master-jobs", "2"}),
              HasSubstr("--master-jobs needs --slaves N"));
  std::ofstream(folder("there.onnx")) << "mine";
  EXPECT_THAT(fails({"ensemble", folder("a"), folder("b"), "--export", folder("there.onnx")}),
              HasSubstr("exists already; choose another name, or overwrite it with --force"));
  EXPECT_EQ(bytes("there.onnx"), "mine");
  const std::string other = folder("b/config.yaml");
  std::string text = file_bytes(other);
  const std::size_t at = text.find("data: \"glyphs\"");
  ASSERT_NE(at, std::string::npos) << text;
  std::ofstream(other) << text.replace(at, 14, "data: \"/other\"");
  EXPECT_THAT(fails({"ensemble", folder("a"), folder("b")}), HasSubstr("say with --data on which images"));
}

}  // namespace
}  // namespace convoy
