// Ensembles, snapshots and teachers as their users see them.

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/safetensors.hpp"
#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

const std::vector<std::string> kSnapshots{
    "--set", "training.schedule={kind: snapshots}", "--set", "training.cycles=2", "--epochs", "2"};

class Ensembles : public Programs {
 protected:
  /// Trains a small net; an epoch has 30 steps.
  void train(const std::string& out, std::vector<std::string> more) const {
    std::vector<std::string> arguments{"train",     kSource + "/nets/glyphs.yaml",
                                       "--set",     "conv1.filters=4",
                                       "--set",     "conv2.filters=4",
                                       "--set",     "dense1.units=16",
                                       "--batch",   "200",
                                       "--threads", "1",
                                       "--out",     folder(out)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Process run = master(arguments);
    ASSERT_EQ(run.wait(100s), kSuccess) << run.output();
  }
  std::string bytes(const std::string& file) const { return file_bytes(folder(file)); }
  /// Runs a command, which must succeed, and returns the objects of its lines.
  std::vector<nlohmann::json> json_of(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--format", "json", "--threads", "1"});
    Process run = master(arguments);
    EXPECT_EQ(run.wait(100s), kSuccess) << run.output();
    std::vector<nlohmann::json> objects;
    std::istringstream lines(run.output());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("{")) objects.push_back(nlohmann::json::parse(line));
    }
    return objects;
  }
  std::string fails(std::vector<std::string> arguments) const {
    Process run = master(arguments);
    EXPECT_NE(run.wait(60s), kSuccess) << run.output();
    return run.output();
  }
  static std::vector<float> values_of(const std::string& file) {
    std::vector<float> values;
    for (const NamedTensor& tensor : read_safetensors(file).tensors) {
      values.insert(values.end(), tensor.values.begin(), tensor.values.end());
    }
    return values;
  }
};

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

TEST_F(Ensembles, RefuseWhatHasNoMeaning) {
  train("a", {"--steps", "2", "--data", "glyphs"});
  train("b", {"--steps", "2", "--data", "glyphs", "--seed", "2"});
  EXPECT_THAT(fails({"ensemble", folder("a")}), HasSubstr("an ensemble needs at least two members"));
  EXPECT_THAT(fails({"ensemble"}), HasSubstr("ensemble needs"));
  EXPECT_THAT(fails({"ensemble", folder("a"), folder("b"), "--vote", "--mean", "logits"}), HasSubstr("--mean"));
  EXPECT_THAT(fails({"ensemble", folder("a"), folder("b"), "--device", "paced:240"}), HasSubstr("paced:240"));
  EXPECT_THAT(fails({"ensemble", folder("a"), folder("b"), "--predict", folder("none.png")}), HasSubstr("none.png"));
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

// ---- teachers ------------------------------------------------------------------------------------------------------

TEST_F(Ensembles, TeachAStudentThatGoesOnToTheSameBits) {
  train("a", {"--steps", "25"});
  train("b", {"--steps", "25", "--seed", "2"});
  for (const bool augmented : {false, true}) {
    SCOPED_TRACE(augmented);
    const std::string name = augmented ? "augmented" : "plain";
    std::vector<std::string> student{"--set",    fmt::format("training.teacher=[{}, {}]", folder("a"), folder("b")),
                                     "--set",    "training.temperature=3",
                                     "--epochs", "2",
                                     "--steps"};
    if (augmented) student.insert(student.begin(), {"--set", "augment.crop=2"});
    std::vector<std::string> whole = student;
    whole.emplace_back("40");
    train(name, whole);
    std::vector<std::string> some = student;
    some.emplace_back("11");
    train(name + "-cut", some);
    Process rest = master({"train", "--resume", folder(name + "-cut"), "--steps", "40"});
    ASSERT_EQ(rest.wait(60s), kSuccess) << rest.output();
    EXPECT_EQ(bytes(name + "-cut/weights.safetensors"), bytes(name + "/weights.safetensors"));
  }
  // Without the teacher the net becomes another.
  train("untaught", {"--epochs", "2", "--steps", "40"});
  EXPECT_NE(values_of(folder("untaught/weights.safetensors")), values_of(folder("plain/weights.safetensors")));
  // A run cannot go on with another teacher.
  fs::copy_file(folder("b/weights.safetensors"), folder("a/weights.safetensors"), fs::copy_options::overwrite_existing);
  EXPECT_THAT(fails({"train", "--resume", folder("plain"), "--steps", "41"}), HasSubstr("teacher-weights was"));
  fs::remove_all(folder("a"));
  EXPECT_THAT(fails({"train", "--resume", folder("plain"), "--steps", "41"}),
              AllOf(HasSubstr("training.teacher: "), HasSubstr("/a: there is no such file or folder")));
}

/// With the teacher alone and the net's own weights as the teacher, there is nothing to learn.
TEST_F(Ensembles, ANetThatIsItsOwnTeacherHasNoLoss) {
  train("a", {"--steps", "25"});
  train("same", {"--weights", folder("a/weights.safetensors"), "--set", "training.teacher=" + folder("a"), "--set",
                 "training.mix=1", "--set", "conv1.filters=4", "--steps", "5"});
  std::istringstream lines(bytes("same/events.jsonl"));
  int steps = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event["event"] != "step") continue;
    ++steps;
    EXPECT_NEAR(event["loss"], 0.0, 1e-6);
  }
  EXPECT_EQ(steps, 5);
}

TEST_F(Ensembles, TeachReplicasAndNetsOnSlaves) {
  train("a", {"--steps", "25"});
  const std::vector<std::string> student{"--set", "training.teacher=" + folder("a"), "--steps", "6"};
  train("alone", student);
  Process helper = slave("helper");
  std::vector<std::string> over = student;
  over.insert(over.end(), {"--slaves", "1", "--shares", "1", "--listen", endpoint_, "--insecure"});
  train("over", over);
  const std::vector<float> expected = values_of(folder("alone/weights.safetensors"));
  const std::vector<float> found = values_of(folder("over/weights.safetensors"));
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-3) << i;
  std::vector<std::string> joined = student;
  joined.insert(joined.end(), {"--sync", "join", "--replicas", "2"});
  train("joined", joined);
  joined.insert(joined.end(), {"--sync-every", "2"});
  train("local", joined);
}

}  // namespace
}  // namespace convoy
