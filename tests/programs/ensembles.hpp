// Small nets that ensembles and teachers are made of, trained by the programs.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/safetensors.hpp"
#include "tests/programs/programs.hpp"

namespace convoy {

class Ensembles : public Programs {
 protected:
  /// Trains a small net; an epoch has 30 steps.
  void train(const std::string& out, std::vector<std::string> more) const {
    std::vector<std::string> arguments{"train",     kSource + "/nets/glyphs.yaml",
                                       "--set",     "conv1.filters=4",
                                       "--set",     "conv2.filters=4",
                                       "--set",     "dense1.units=16",
                                       "--threads", "1",
                                       "--out",     folder(out)};
    if (std::ranges::find(more, "--batch") == more.end()) arguments.insert(arguments.end(), {"--batch", "200"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    Process run = master(arguments);
    ASSERT_EQ(run.wait(std::chrono::seconds(100)), kSuccess) << run.output();
  }
  std::string bytes(const std::string& file) const { return file_bytes(folder(file)); }
  /// Runs a command, which must succeed, and returns the objects of its lines.
  std::vector<nlohmann::json> json_of(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--format", "json", "--threads", "1"});
    Process run = master(arguments);
    EXPECT_EQ(run.wait(std::chrono::seconds(100)), kSuccess) << run.output();
    std::vector<nlohmann::json> objects;
    std::istringstream lines(run.output());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("{")) objects.push_back(nlohmann::json::parse(line));
    }
    return objects;
  }
  std::string fails(std::vector<std::string> arguments) const {
    Process run = master(arguments);
    EXPECT_NE(run.wait(std::chrono::seconds(60)), kSuccess) << run.output();
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

}  // namespace convoy
