// Tests the output of predict, import and export.

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>

#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using namespace std::chrono_literals;

class Predictions : public Programs {
 protected:
  /// Makes pictures of two classes, and a run that has trained on them.
  void train() {
    const std::string pictures = kSource + "/tests/fuzz/corpus/image/";
    for (const std::string name : {"dark cat", "grey cat"}) {
      fs::create_directories(folder("data/" + name));
      for (int i = 0; i < 6; ++i) {
        const bool dark = name == "dark cat";
        fs::copy_file(pictures + (dark ? "rgb.png" : "grey.jpg"),
                      folder(fmt::format("data/{}/{}.{}", name, i, dark ? "png" : "jpg")));
      }
    }
    std::ofstream(folder("net.yaml")) << "name: cats\n"
                                         "input: {channels: 3, height: 12, width: 12}\n"
                                         "layers:\n"
                                         "  - {name: c, type: conv, filters: 6, kernel: 3}\n"
                                         "  - {name: r, type: relu}\n"
                                         "  - {name: p, type: global_average_pool}\n"
                                         "  - {name: d, type: dense, units: 2}\n"
                                         "  - {name: loss, type: softmax_cross_entropy}\n"
                                         "training: {batch: 4, epochs: 40, learning_rate: 0.1}\n";
    const std::string run = folder("run");
    Process training = master({"train", folder("net.yaml"), "--data", folder("data"), "--out", run});
    ASSERT_EQ(training.wait(120s), kSuccess) << training.output();
  }

  Process predict(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"predict", folder("run/config.yaml"), "--weights",
                                       folder("run/weights.safetensors")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return master(arguments);
  }
};

TEST_F(Predictions, NameTheClassesOfFilesAndFolders) {
  train();
  const std::string dark = folder("data/dark cat/0.png");
  Process one = predict({dark, "--top", "1"});
  EXPECT_EQ(one.wait(120s), kSuccess) << one.output();
  EXPECT_THAT(one.output(), testing::MatchesRegex(".*0.png: [0-9.]+ % dark cat\n"));
  Process all = predict({folder("data"), "--format", "json"});
  EXPECT_EQ(all.wait(120s), kSuccess) << all.output();
  const std::string text = all.output();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 13);  // the last line tells the energy
  EXPECT_THAT(text, HasSubstr(R"({"event":"prediction","image":)"));
  // Prediction over slaves must give the same output.
  Process a = slave("a", {"--once"});
  Process b = slave("b", {"--once"});
  Process together = predict(
      {folder("data"), "--format", "json", "--slaves", "2", "--exchange", "ring", "--listen", endpoint_, "--insecure"});
  EXPECT_EQ(together.wait(120s), kSuccess) << together.output();
  EXPECT_EQ(a.wait(120s), kSuccess) << a.output();
  EXPECT_EQ(b.wait(120s), kSuccess) << b.output();
  EXPECT_THAT(together.output(), HasSubstr("\"dark cat\""));
  const auto names_of = [](const std::string& lines) {
    std::string names;
    for (std::size_t at = lines.find("\"name\":"); at != std::string::npos; at = lines.find("\"name\":", at + 1)) {
      names += lines.substr(at, 20);
    }
    return names;
  };
  EXPECT_EQ(names_of(together.output()), names_of(text));
}

TEST_F(Predictions, SayWhatIsMissing) {
  train();
  const auto expect = [](Process process, const std::string& text) {
    EXPECT_EQ(process.wait(120s), kFailure);
    EXPECT_THAT(process.output(), HasSubstr(text));
  };
  std::ofstream(folder("broken.png")) << "\x89PNG and no more";
  expect(predict({folder("broken.png")}), "broken.png: the image is not a valid PNG");
  expect(predict({folder("nothing.png")}), "nothing.png");
  fs::create_directories(folder("empty"));
  expect(predict({folder("empty")}), "the folder has no JPEG, PNG or WebP file");
  expect(master({"predict", folder("net.yaml"), "--weights", folder("run/weights.safetensors"), folder("data")}),
         "has no mean and deviation of the pixels");
}

TEST_F(Predictions, SkipDamagedFilesWhenAsked) {
  train();
  fs::copy(folder("data/dark cat"), folder("mixed"));
  std::ofstream(folder("mixed/1 broken.png")) << "\x89PNG and no more";
  fs::create_symlink("nowhere.png", folder("mixed/2 gone.png"));
  fs::rename(folder("mixed/3.png"), folder("mixed/3\n.png"));
  Process refused = predict({folder("mixed")});
  EXPECT_EQ(refused.wait(120s), kFailure);
  EXPECT_THAT(refused.output(), testing::AllOf(HasSubstr("1 broken.png: "), HasSubstr("--corrupt skip")));
  Process skipped = predict({folder("mixed"), "--corrupt", "skip", "--top", "1"});
  EXPECT_EQ(skipped.wait(120s), kSuccess) << skipped.output();
  EXPECT_THAT(skipped.output(),
              testing::AllOf(HasSubstr("1 broken.png: "), HasSubstr("2 gone.png: "), HasSubstr("3\\x0a.png: "),
                             HasSubstr("5.png: "), HasSubstr("2 of 8 files were skipped")));
  Process json = predict({folder("mixed"), "--corrupt", "skip", "--format", "json"});
  EXPECT_EQ(json.wait(120s), kSuccess) << json.output();
  EXPECT_THAT(json.output(), HasSubstr(R"({"event":"skipped","image":)"));
  Process all = predict({folder("mixed/1 broken.png"), "--corrupt", "skip"});
  EXPECT_EQ(all.wait(120s), kFailure);
  EXPECT_THAT(all.output(), HasSubstr("none of the 1 files could be decoded"));
}

/// Outputs that are not finite must end in an error, because they cannot be ranked.
TEST_F(Predictions, SayWhenTheNetGivesNoNumbers) {
  train();
  const std::string weights = folder("run/weights.safetensors");
  std::string bytes = file_bytes(weights);
  // Without its checksums, as a file of another program.
  const std::string checksum = "xxh3_64";
  for (auto at = bytes.find(checksum); at != std::string::npos; at = bytes.find(checksum)) bytes[at] = 'X';
  // The last layer, of 2 x 6 weights and 2 biases, comes last; its values are finite, and its products are not.
  for (std::size_t value = 1; value <= 14; ++value) bytes.replace(bytes.size() - 4 * value, 4, "\x99\x76\x7f\x7f");
  std::ofstream(weights, std::ios::binary) << bytes;
  Process process = predict({folder("data"), "--set", "input.deviation=[1e-6,1e-6,1e-6]"});
  EXPECT_EQ(process.wait(120s), kFailure);
  EXPECT_THAT(process.output(),
              HasSubstr("outputs for this image are not finite numbers; check that the weights belong to this net"));
}

/// Makes the number NaN whose bytes come first in the file, which loses its checksums, as a file of another program.
void make_nan(const std::string& file, const std::string& number) {
  std::string bytes = file_bytes(file);
  const std::string checksum = "xxh3_64";
  for (auto at = bytes.find(checksum); at != std::string::npos; at = bytes.find(checksum)) bytes[at] = 'X';
  const auto at = bytes.find(number);
  ASSERT_NE(at, std::string::npos) << file;
  bytes.replace(at, 4, std::string("\x00\x00\xc0\x7f", 4));
  std::ofstream(file, std::ios::binary) << bytes;
}

TEST_F(Predictions, AndEveryOtherCommandRefuseWeightsThatAreNoNumbers) {
  train();
  const std::string weights = folder("run/weights.safetensors");
  const std::string net = folder("run/config.yaml");
  const std::string model = folder("cats.onnx");
  Process out = master({"export", net, "--weights", weights, "--out", model});
  ASSERT_EQ(out.wait(120s), kSuccess) << out.output();
  const std::string bytes = file_bytes(weights);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::string first = bytes.substr(sizeof header + header, 16);  // of the convolution's weights
  make_nan(weights, first);
  make_nan(model, first);
  const std::vector<std::vector<std::string>> commands{
      {"train", net, "--data", folder("data"), "--out", folder("next"), "--weights", weights},
      {"test", net, "--data", folder("data"), "--weights", weights},
      {"predict", net, "--weights", weights, folder("data")},
      {"export", net, "--weights", weights, "--out", folder("next.onnx")},
      {"import", weights, "--net", net, "--out", folder("next")},
      {"import", model, "--out", folder("next")}};
  for (const std::vector<std::string>& command : commands) {
    Process process = master(command);
    EXPECT_EQ(process.wait(120s), kFailure) << command[0];
    EXPECT_THAT(process.output(), testing::AllOf(HasSubstr("value 0 of tensor c.weight is nan"),
                                                 HasSubstr("weights must be finite numbers")))
        << command[0];
  }
}

TEST_F(Predictions, TakeWeightsOfOtherPrograms) {
  train();
  const std::string weights = folder("run/weights.safetensors");
  const std::string net = folder("run/config.yaml");
  const auto expect = [](Process process, int code, const std::string& text) {
    EXPECT_EQ(process.wait(120s), code);
    EXPECT_THAT(process.output(), HasSubstr(text));
  };
  expect(master({"import", weights}), kFailure, "give their net with --net");
  expect(master({"import", folder("a.onnx"), "--net", net}), kFailure, "an ONNX model contains its net");
  expect(master({"import", weights, "--names", folder("names.yaml")}), kUsage, "--net");
  std::ofstream(folder("names.yaml")) << "cnv: features.0\n";
  expect(master({"import", weights, "--net", net, "--names", folder("names.yaml")}), kFailure, "did you mean");
  expect(master({"import", weights, "--net", net, "--out", folder("taken")}), kSuccess, "parameters for");
  expect(master({"import", weights, "--net", net, "--out", folder("taken")}), kFailure, "overwrite it with --force");
  expect(master({"import", weights, "--net", net, "--out", folder("taken"), "--force"}), kSuccess, "parameters for");
  expect(master({"import", weights, "--net", net, "--out", folder("no/taken")}), kFailure, "No such file or directory");
  expect(master({"import", weights, "--net", net, "--out", folder("ending.safetensors")}), kSuccess,
         "ending.safetensors: ");
  fs::create_directories(folder("into"));
  expect(master({"import", weights, "--net", net, "--out", folder("into/")}), kSuccess,
         "into/" + fs::path(weights).filename().string() + ": ");
  Process before = predict({folder("data")});
  Process after = master({"predict", net, "--weights", folder("taken.safetensors"), folder("data")});
  EXPECT_EQ(before.wait(120s), kSuccess) << before.output();
  EXPECT_EQ(after.wait(120s), kSuccess) << after.output();
  EXPECT_EQ(before.output(), after.output());
}

TEST_F(Predictions, AreTheSameAfterONNX) {
  train();
  Process out = master({"export", folder("run/config.yaml"), "--weights", folder("run/weights.safetensors"), "--out",
                        folder("cats.onnx")});
  EXPECT_EQ(out.wait(120s), kSuccess) << out.output();
  Process in = master({"import", folder("cats.onnx"), "--out", folder("again")});
  EXPECT_EQ(in.wait(120s), kSuccess) << in.output();
  EXPECT_THAT(in.output(), HasSubstr("3x12x12"));
  Process twice = master({"import", folder("cats.onnx"), "--out", folder("again")});
  EXPECT_EQ(twice.wait(120s), kFailure);
  EXPECT_THAT(twice.output(), HasSubstr("again.safetensors exists already"));
  Process over = master({"export", folder("run/config.yaml"), "--weights", folder("run/weights.safetensors"), "--out",
                         folder("cats.onnx")});
  EXPECT_EQ(over.wait(120s), kFailure);
  EXPECT_THAT(over.output(), testing::AllOf(HasSubstr("cats.onnx exists already"), HasSubstr("--force")));
  Process before = predict({folder("data"), "--set", "input.mean=0.5", "--set", "input.deviation=0.25"});
  Process after = master({"predict", folder("again.yaml"), "--weights", folder("again.safetensors"), folder("data"),
                          "--set", "input.mean=0.5", "--set", "input.deviation=0.25"});
  EXPECT_EQ(before.wait(120s), kSuccess) << before.output();
  EXPECT_EQ(after.wait(120s), kSuccess) << after.output();
  // What pixels become may be said when a model is imported.
  Process whole = master({"import", folder("cats.onnx"), "--out", folder("whole"), "--set", "input.mean=0.5", "--set",
                          "input.deviation=0.25"});
  EXPECT_EQ(whole.wait(120s), kSuccess) << whole.output();
  Process short_one =
      master({"predict", folder("whole.yaml"), "--weights", folder("whole.safetensors"), folder("data")});
  EXPECT_EQ(short_one.wait(120s), kSuccess) << short_one.output();
  EXPECT_EQ(short_one.output(), after.output());
  Process wider = master({"import", folder("cats.onnx"), "--out", folder("wider"), "--set", "conv1.filters=99"});
  EXPECT_EQ(wider.wait(120s), kFailure);
  EXPECT_FALSE(std::filesystem::exists(folder("wider.yaml"))) << wider.output();
  const auto numbers_of = [](const std::string& text) {
    std::string numbers;
    for (const char letter : text) {
      if (letter == '%' || letter == '\n' || (letter >= '0' && letter <= '9')) numbers += letter;
    }
    return numbers;
  };
  std::string named = before.output();
  for (const auto& [name, number] : {std::pair{"dark cat,", "class 0,"},
                                     {"grey cat,", "class 1,"},
                                     {"dark cat\n", "class 0\n"},
                                     {"grey cat\n", "class 1\n"}}) {
    for (std::size_t at = named.find(name); at != std::string::npos; at = named.find(name)) {
      named.replace(at, std::string(name).size(), number);
    }
  }
  EXPECT_EQ(numbers_of(named), numbers_of(after.output()));
}

}  // namespace
}  // namespace convoy
