// Tests the energy of test and predict, alone and over slaves, on faked sensors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/exit_code.hpp"
#include "tests/programs/fake_sensors.hpp"
#include "tests/support/process.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Words = std::vector<std::string>;

/// A run of one step of a net with so many filters, whose weights are tested.
class PassEnergy : public testing::Test {
 protected:
  void train(int filters) {
    run_ = fmt::format("{}/run-{}", scratch_.path(), filters);
    Process process(on_sensors(none_, {CONVOY_MASTER, "train", source_folder() + "/nets/lenet-tanh.yaml", "--set",
                                       fmt::format("conv2.filters={}", filters), "--steps", "1", "--batch", "8",
                                       "--device", "eigen", "--threads", "1", "--out", run_}));
    ASSERT_EQ(process.wait(120s), kSuccess) << process.output();
  }

  /// The words of a command on the weights of the run.
  Words command(const std::string& name, const Words& more) const {
    Words words{CONVOY_MASTER, name,    run_ + "/config.yaml", "--weights", run_ + "/weights.safetensors",
                "--device",    "eigen", "--threads",           "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// The last line that is a JSON object.
  static nlohmann::json last_event(const std::string& output) {
    const auto line = output.rfind("{\"event\":");
    if (line == std::string::npos) fail("there is no event: {}", output);
    return nlohmann::json::parse(output.substr(line, output.find('\n', line) - line));
  }

  const FakeSensors sensors_;
  const energy::FakeMachine none_;
  const TemporaryFolder scratch_;
  std::string run_;
};

/// Expects a member at a power, and joules that are the power by the time.
void expect_power(const nlohmann::json& member, double watts) {
  ASSERT_TRUE(member.contains("joules")) << member;
  EXPECT_NEAR(member["joules"].get<double>() / member["seconds"].get<double>(), watts, 0.02 * watts) << member;
  EXPECT_GT(member["refresh"].get<double>(), 0) << member;
  EXPECT_TRUE(member["wraps"].is_number_integer() && member["gaps"].is_number_integer()) << member;
}

TEST_F(PassEnergy, OfATestOverSlaves) {
  nlohmann::json test;
  // Where a test is short, refusals are right. With more filters it takes longer.
  for (int filters = 200; filters <= 3200; filters *= 4) {
    train(filters);
    const std::string endpoint = free_endpoint();
    const auto slave = [&](const energy::FakeMachine& machine, const std::string& name) {
      return Process(on_sensors(machine, {CONVOY_SLAVE, endpoint, "--insecure", "--name", name, "--threads", "1",
                                          "--device", "eigen", "--once"}));
    };
    Process desktop = slave(sensors_.desktop, "a-desktop");
    Process jetson = slave(sensors_.jetson, "b-jetson");
    Process master(on_sensors(
        none_, command("test", {"--slaves", "2", "--shares", "1,1", "--exchange", "star", "--listen", endpoint,
                                "--insecure", "--batch", "8", "--format", "json", "--switch-watts", "5"})));
    ASSERT_EQ(master.wait(200s), kSuccess) << master.output();
    test = last_event(master.output());
    EXPECT_EQ(desktop.wait(60s), kSuccess) << desktop.output();
    EXPECT_EQ(jetson.wait(60s), kSuccess) << jetson.output();
    if (test["energy"]["measured_members"] == 2) break;
  }
  const auto& energy = test["energy"];
  ASSERT_EQ(energy["members"].size(), 3U) << energy;
  EXPECT_EQ(energy["measured_members"], 2) << energy;
  expect_power(energy["members"][0], 20);
  expect_power(energy["members"][1], 6.0025);
  EXPECT_THAT(energy["members"][2]["not_measurable"].get<std::string>(), HasSubstr("no meter")) << energy;
  EXPECT_GT(energy["declared_joules"].get<double>(), 0);
  const double joules = energy["joules"].get<double>() + energy["declared_joules"].get<double>();
  EXPECT_NEAR(energy["joules_per_image"].get<double>() * test["images"].get<double>(), joules, 1e-3 * joules);
  EXPECT_NEAR(energy["joules_per_image"].get<double>() * energy["images_per_joule"].get<double>(), 1, 1e-6);
}

TEST_F(PassEnergy, OfATestAloneIsPrinted) {
  std::string output;
  for (int filters = 200; filters <= 12800 && output.find(" J/image, ") == std::string::npos; filters *= 4) {
    train(filters);
    Process process(on_sensors(sensors_.desktop, command("test", {"--batch", "8"})));
    ASSERT_EQ(process.wait(200s), kSuccess) << process.output();
    output = process.output();
  }
  EXPECT_THAT(output, AllOf(HasSubstr(" measured on 1 of 1 members"), HasSubstr(" J/image, "), HasSubstr(" images/J, "),
                            HasSubstr(" GFLOP/s/W of convolutions"), HasSubstr("rapl (package, measured)"),
                            HasSubstr("; compute 100 %, ")));
}

TEST_F(PassEnergy, OfPredictions) {
  train(50);
  const std::string pictures = scratch_.path() + "/pictures";
  std::filesystem::create_directory(pictures);
  for (int i = 0; i < 250; ++i) {
    std::filesystem::copy_file(source_folder() + "/tests/fuzz/corpus/image/grey.jpg",
                               fmt::format("{}/{}.jpg", pictures, i));
  }
  nlohmann::json energy;
  for (std::size_t times = 4; times <= 1024; times *= 4) {
    Words more{"--format", "json", "--top", "1"};
    more.resize(more.size() + times, pictures);
    Process process(on_sensors(sensors_.desktop, command("predict", more)));
    ASSERT_EQ(process.wait(200s), kSuccess);
    energy = last_event(process.output());
    EXPECT_EQ(energy["event"], "energy");
    EXPECT_EQ(energy["images"], 250 * times);
    if (energy["measured_members"] == 1) break;
  }
  ASSERT_EQ(energy["measured_members"], 1) << energy;
  expect_power(energy["members"][0], 20);
  EXPECT_NEAR(energy["joules_per_image"].get<double>() * energy["images"].get<double>(), energy["joules"].get<double>(),
              1e-3 * energy["joules"].get<double>());
}

/// A window that is too short for the meter has no joules, and says so.
TEST_F(PassEnergy, OfOneImageIsRefused) {
  train(50);
  const std::string picture = source_folder() + "/tests/fuzz/corpus/image/grey.jpg";
  Process text(on_sensors(sensors_.desktop, command("predict", {picture})));
  ASSERT_EQ(text.wait(60s), kSuccess) << text.output();
  EXPECT_THAT(text.output(), AllOf(HasSubstr("energy: nothing is measured\n"), HasSubstr("master"),
                                   HasSubstr("not measurable: "), Not(HasSubstr("J/image"))));
  Process json(on_sensors(sensors_.desktop, command("predict", {picture, "--format", "json"})));
  ASSERT_EQ(json.wait(60s), kSuccess) << json.output();
  const nlohmann::json energy = last_event(json.output());
  EXPECT_EQ(energy["measured_members"], 0);
  EXPECT_FALSE(energy["members"][0]["not_measurable"].get<std::string>().empty());
  EXPECT_FALSE(energy.contains("joules"));
  Process off(on_sensors(sensors_.desktop, command("predict", {picture, "--meter", "none"})));
  ASSERT_EQ(off.wait(60s), kSuccess) << off.output();
  EXPECT_THAT(off.output(), Not(HasSubstr("energy")));
}

TEST_F(PassEnergy, TakesTheOptionsOfARun) {
  train(50);
  const std::string picture = source_folder() + "/tests/fuzz/corpus/image/grey.jpg";
  for (const auto& [name, more] : std::vector<std::pair<std::string, Words>>{{"test", {}}, {"predict", {picture}}}) {
    Words assumed = more;
    assumed.insert(assumed.end(), {"--assume-watts", "30"});
    Process process(on_sensors(none_, command(name, assumed)));
    ASSERT_EQ(process.wait(100s), kSuccess) << process.output();
    EXPECT_THAT(process.output(), AllOf(HasSubstr("energy: nothing is measured + "), HasSubstr(" J assumed"),
                                        HasSubstr("; assumed 30 W (--assume-watts)"), HasSubstr(" J/image")));
    Words unknown = more;
    unknown.insert(unknown.end(), {"--meter", "rapl", "--slaves", "1"});
    Process refused(on_sensors(none_, command(name, unknown)));
    EXPECT_EQ(refused.wait(60s), kFailure);
    EXPECT_THAT(refused.output(), AllOf(HasSubstr("there is no meter 'rapl'"), Not(HasSubstr("waiting for"))));
  }
}

}  // namespace
}  // namespace convoy
