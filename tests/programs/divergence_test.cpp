// Runs whose numbers stop being finite, as their users see them.

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

/// The values of a safetensors file: 8 bytes with the length of its header, the header, then floats.
std::vector<float> values_in(const std::string& file) {
  const std::string bytes = file_bytes(file);
  std::uint64_t header = 0;
  if (bytes.size() < sizeof header) return {};
  std::memcpy(&header, bytes.data(), sizeof header);
  std::vector<float> values((bytes.size() - sizeof header - header) / sizeof(float));
  std::memcpy(values.data(), bytes.data() + sizeof header + header, values.size() * sizeof(float));
  return values;
}

class Divergence : public Programs {
 protected:
  /// Runs until training diverges, with a checkpoint after each step, and returns what the master says.
  std::string output_of(std::vector<std::string> options, const std::string& net = "glyphs") const {
    options.insert(options.end(),
                   {"--checkpoint-seconds", "0", "--epochs", "1", "--set", "training.learning_rate=1e6"});
    std::vector<std::string> arguments = training(folder("run"), options);
    arguments[1] = kSource + "/nets/" + net + ".yaml";
    Process train = master(arguments);
    EXPECT_EQ(train.wait(100s), kFailure) << train.output();
    return train.output();
  }
  void expect_finite_files() const {
    for (const std::string file : {"/checkpoint.safetensors", "/weights.safetensors"}) {
      const std::vector<float> values = values_in(folder("run") + file);
      EXPECT_GT(values.size(), 100U) << file;
      EXPECT_TRUE(std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) << file;
    }
  }
  auto says_how_to_go_on() const {
    return AllOf(HasSubstr("training diverged"), HasSubstr(folder("run") + "/checkpoint.safetensors of step "),
                 HasSubstr("--weights " + folder("run") + "/weights.safetensors"),
                 HasSubstr("--set training.learning_rate="));
  }

  /// Each update multiplies the weights by nearly a million. The maps stay between -1 and 1, so that the weights
  /// overflow before the loss.
  std::string output_of_growth(std::vector<std::string> options) const {
    options.insert(options.end(), {"--data", "glyphs", "--set", "training.weight_decay=1", "--set",
                                   "training.momentum=0", "--set", "dense1.units=20"});
    return output_of(options, "lenet-tanh");
  }

  std::vector<std::string> over_two_ = {"--slaves", "2", "--shares", "1,1"};
};

TEST_F(Divergence, EndsARunAndLeavesFiniteWeights) {
  EXPECT_THAT(output_of({}), says_how_to_go_on());
  expect_finite_files();
}

TEST_F(Divergence, EndsARunOverSlavesAndLeavesFiniteWeights) {
  Process a = slave("a");
  Process b = slave("b");
  EXPECT_THAT(output_of(over_two_), says_how_to_go_on());
  expect_finite_files();
}

TEST_F(Divergence, IsNamedByTheLayerAndTheStep) {
  EXPECT_THAT(output_of_growth({}), AllOf(says_how_to_go_on(), HasSubstr(", weights of layer conv1 ")));
  expect_finite_files();
}

TEST_F(Divergence, OfASlavesWeightsIsNamedByTheLayerAndTheStep) {
  Process a = slave("a");
  Process b = slave("b");
  EXPECT_THAT(output_of_growth(over_two_), AllOf(says_how_to_go_on(), HasSubstr(", weights of layer conv1 ")));
  expect_finite_files();
}

/// The master needs the gradients' norm for the update, and slaves refuse an update by a number that is not finite.
TEST_F(Divergence, OfClippedGradientsEndsARunOverSlaves) {
  Process a = slave("a");
  Process b = slave("b");
  over_two_.insert(over_two_.end(), {"--set", "training.clip=1e9"});
  EXPECT_THAT(output_of(over_two_), says_how_to_go_on());
  expect_finite_files();
}

}  // namespace
}  // namespace convoy
