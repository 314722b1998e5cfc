// Teachers as their users see them.

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/programs/ensembles.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

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
    EXPECT_EQ(fs::exists(folder(name + "-cut/teacher-outputs.safetensors")), !augmented);
    EXPECT_EQ(rest.output().find("are those in") == std::string::npos, augmented) << rest.output();
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

/// A run that is resumed reads what its teachers say, unless the file is damaged or of others.
TEST_F(Ensembles, TeachFromAFileThatIsTheirs) {
  train("a", {"--steps", "25"});
  const auto resumed = [&](const std::string& steps) {
    Process process = master({"train", "--resume", folder("student"), "--steps", steps});
    EXPECT_EQ(process.wait(60s), kSuccess) << process.output();
    return process.output();
  };
  train("student", {"--set", "training.teacher=" + folder("a"), "--steps", "2"});
  train("other", {"--set", "training.teacher=" + folder("a"), "--set", "training.temperature=2", "--steps", "2"});
  const std::string file = folder("student/teacher-outputs.safetensors");
  const std::string outputs = file_bytes(file);
  EXPECT_GT(outputs.size(), 6000U * 10U * 4U);
  EXPECT_THAT(resumed("3"), HasSubstr("the teacher's outputs for the 6000 training images are those in " + file));
  std::string damaged = outputs;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
  for (const auto& [bytes, why] :
       {std::pair{damaged, "teacher-outputs.safetensors: "},
        std::pair{outputs.substr(0, outputs.size() / 2), "teacher-outputs.safetensors: "},
        std::pair{file_bytes(folder("other/teacher-outputs.safetensors")),
                  "the file belongs to other teachers or other images"},
        std::pair{file_bytes(folder("a/weights.safetensors")), "the file belongs to other teachers or other images"}}) {
    std::ofstream(file, std::ios::binary) << bytes;
    EXPECT_THAT(resumed("3"), AllOf(HasSubstr(why), HasSubstr("; the teacher computes its outputs again")));
    EXPECT_EQ(file_bytes(file), outputs);
  }
}

/// Images without classes serve a net that learns from a teacher alone, and only such a net. The test has classes.
TEST_F(Ensembles, TeachFromImagesWithoutClasses) {
  const std::string images = kSource + "/tests/fuzz/corpus/image";
  int number = 0;
  for (const auto& image : fs::directory_iterator(images)) {
    const fs::path name = image.path().filename();
    for (int copy = 0; copy < 4; ++copy) {
      const std::string file = fmt::format("{}-{}", copy, name.string());
      const std::string of_class = number++ % 2 == 0 ? "odd" : "even";
      for (const std::string& place : {"data/train/" + of_class, "data/test/" + of_class, std::string("bare/train"),
                                       "bare/test/" + of_class, std::string("loose")}) {
        fs::create_directories(folder(place));
        fs::copy_file(image.path(), folder(place) + "/" + file);
      }
    }
  }
  const std::vector<std::string> two_classes{"--set", "dense2.units=2", "--batch", "10", "--epochs", "2", "--data"};
  const auto with = [&](const std::string& data, const std::vector<std::string>& more) {
    std::vector<std::string> words = two_classes;
    words.push_back(folder(data));
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto refused = [&](const std::string& data, const std::vector<std::string>& more) {
    std::vector<std::string> words{"train", kSource + "/nets/glyphs.yaml", "--out", folder("refused")};
    const std::vector<std::string> rest = with(data, more);
    words.insert(words.end(), rest.begin(), rest.end());
    return fails(words);
  };
  train("teacher", with("data", {}));
  const std::vector<std::string> taught{"--set", "training.teacher=" + folder("teacher"), "--set", "training.mix=1"};
  train("student", with("bare", taught));
  std::istringstream lines(bytes("student/events.jsonl"));
  int epochs = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event["event"] != "epoch") continue;
    ++epochs;
    EXPECT_GT(event["train_accuracy"], 0.0) << "whether the net says what the teacher does";
  }
  EXPECT_EQ(epochs, 2);
  const auto test =
      json_of({"test", folder("student/config.yaml"), "--weights", folder("student/weights.safetensors")}).back();
  EXPECT_EQ(test["images"], number);
  EXPECT_EQ(test["classes"][0]["name"], "even") << test;
  EXPECT_THAT(refused("bare", {}), AllOf(HasSubstr("have no classes"), HasSubstr("the net has no training.teacher")));
  EXPECT_THAT(refused("bare", {"--set", "training.teacher=" + folder("teacher")}),
              HasSubstr("training.mix is 0.9, which leaves a part of the loss to labels"));
  std::vector<std::string> split = taught;
  split.insert(split.end(), {"--val-split", "0.2"});
  EXPECT_THAT(refused("bare", split), HasSubstr("leave out --val-split"));
  std::ofstream(folder("space.yaml")) << "net: " << kSource << "/nets/glyphs.yaml\ndata: bare\ntrials: 1\n"
                                      << "parameters: {conv1.filters: {integer: [2, 8]}}\n";
  std::ofstream(folder("jobs.yaml")) << "net: " << kSource << "/nets/glyphs.yaml\ndata: bare\n"
                                     << "set: {dense2.units: 2}\njobs: [{name: a}]\n";
  EXPECT_THAT(fails({"search", folder("space.yaml"), "--set", "dense2.units=2", "--batch", "5"}),
              HasSubstr("have no classes"));
  EXPECT_THAT(fails({"jobs", folder("jobs.yaml")}), AllOf(HasSubstr("job a: "), HasSubstr("have no classes")));
  EXPECT_THAT(refused("loose", taught), HasSubstr("its images are in no folders of classes"));
}

TEST_F(Ensembles, TeachReplicasAndNetsOnSlaves) {
  train("a", {"--steps", "25"});
  const std::vector<std::string> student{"--set", "training.teacher=" + folder("a"), "--steps", "6"};
  train("alone", student);
  Process helper = slave("helper");
  std::vector<std::string> over = student;
  over.insert(over.end(), {"--slaves", "1", "--shares", "1", "--listen", endpoint_, "--insecure"});
  train("over", over);
  EXPECT_THAT(bytes("over/events.jsonl"), HasSubstr(folder("a") + " begins on ")) << "the helper or this machine";
  EXPECT_EQ(bytes("over/teacher-outputs.safetensors"), bytes("alone/teacher-outputs.safetensors"));
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
