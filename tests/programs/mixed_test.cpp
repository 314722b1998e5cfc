// Tests runs over devices of several kinds. In some, convoy-slave for aarch64 runs under qemu beside slaves of this
// machine; these tests are skipped if the cross build (scripts/sysroot, scripts/build aarch64) or qemu-user is missing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>

#include "core/error.hpp"
#include "core/exit_code.hpp"
#include "core/files.hpp"
#include "model/safetensors.hpp"
#include "nets/graph/net.hpp"
#include "plan/plan.hpp"
#include "tests/energy/fake_machine.hpp"
#include "tests/programs/other_devices.hpp"
#include "tests/support/process.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;

const std::string kSource = source_folder();

class Aarch64 : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kAarch64Slave)) {
      GTEST_SKIP() << "the slave for aarch64 is not built; run scripts/sysroot and scripts/build aarch64";
    }
  }
};

TEST_F(Aarch64, TheSlaveLinksZeroMqAndTheCompilersLibrariesAlone) {
  if (!on_path("readelf")) GTEST_SKIP() << "readelf (binutils) is not installed";
  Process readelf({"/usr/bin/env", "readelf", "--dynamic", "--wide", kAarch64Slave});
  ASSERT_EQ(readelf.wait(10s), 0) << readelf.output();
  const std::set<std::string> allowed{"libzmq.so.5",   "libstdc++.so.6", "libm.so.6",
                                      "libgcc_s.so.1", "libc.so.6",      "ld-linux-aarch64.so.1"};
  const std::string output = readelf.output();
  const std::regex needed(R"(\(NEEDED\)[^\[]*\[([^\]]+)\])");
  int libraries = 0;
  for (std::sregex_iterator i(output.begin(), output.end(), needed), end; i != end; ++i, ++libraries) {
    EXPECT_TRUE(allowed.contains((*i)[1])) << (*i)[1];
  }
  EXPECT_GE(libraries, 3) << output;
}

TEST_F(Aarch64, TheSlaveListsTheMetersOfAPhone) {
  if (!on_path("qemu-aarch64")) GTEST_SKIP() << "qemu-aarch64 is not installed (Debian: apt-get install qemu-user)";
  const energy::FakeMachine phone("pixel");
  Process list({"/usr/bin/env", "CONVOY_METER_ROOT=" + phone.folder(), "qemu-aarch64", "-L", kSysroot, kAarch64Slave,
                "--list-meters"});
  ASSERT_EQ(list.wait(60s), kSuccess) << list.output();
  EXPECT_THAT(list.output(), testing::AllOf(testing::HasSubstr("* odpm:gpu "), testing::HasSubstr("* battery "),
                                            testing::HasSubstr(" 2.0 W")));
}

constexpr int kSteps = 40;
constexpr int kBatch = 32;

/// The tolerance allows for rounding in sums of at most 28 x 28 products for each sample of a batch, in independent
/// steps.
const double kRounding = std::sqrt(kSteps * kBatch * 28.0 * 28.0) * 0x1.0p-24;

/// Trains LeNet with tanh and returns its weights. With a ReLU, one rounding could change all later steps.
SafetensorsFile train(const std::string& out, const std::vector<std::string>& more, const std::string& device = "cpu",
                      int steps = kSteps) {
  std::vector<std::string> command{CONVOY_MASTER,
                                   "train",
                                   kSource + "/nets/lenet-tanh.yaml",
                                   "--batch",
                                   std::to_string(kBatch),
                                   "--steps",
                                   std::to_string(steps),
                                   "--device",
                                   device,
                                   "--out",
                                   out,
                                   "--threads",
                                   "1"};
  command.insert(command.end(), more.begin(), more.end());
  Process master(command);
  EXPECT_EQ(master.wait(200s), kSuccess) << master.output();
  return read_safetensors(out + "/weights.safetensors");
}

/// Expects that the largest difference, relative to the largest weight of its tensor, is above 0 and within the
/// tolerance.
void expect_agreement(const SafetensorsFile& mixed, const SafetensorsFile& local, double tolerance) {
  ASSERT_EQ(mixed.tensors.size(), local.tensors.size());
  const TensorsByName tensors(mixed, "mixed");
  double change = 0.0;
  for (const NamedTensor& expected : local.tensors) {
    const NamedTensor& got = tensors.get(expected.name, expected.dims);
    double largest = 0.0;
    double off = 0.0;
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      largest = std::max(largest, static_cast<double>(std::abs(expected.values[i])));
      off = std::max(off, static_cast<double>(std::abs(got.values[i] - expected.values[i])));
    }
    EXPECT_LE(off, tolerance * largest) << expected.name;
    change += off;
  }
  EXPECT_GT(change, 0.0) << "other devices sum in another order; equal bits show that they computed nothing";
}

/// Starts convoy-slave for aarch64 under qemu, named a-phone.
Process phone(const std::string& endpoint) {
  return Process({"/usr/bin/env", "qemu-aarch64", "-L", kSysroot, kAarch64Slave, endpoint, "--insecure", "--name",
                  "a-phone", "--threads", "1"});
}

TEST_F(Aarch64, JoinsARunWithOtherDevices) {
  if (!on_path("qemu-aarch64")) GTEST_SKIP() << "qemu-aarch64 is not installed (Debian: apt-get install qemu-user)";
  const TemporaryFolder scratch;
  const std::string endpoint = free_endpoint();
  std::vector<Process> slaves;
  slaves.push_back(phone(endpoint));
  slaves.emplace_back(std::vector<std::string>{CONVOY_SLAVE, endpoint, "--insecure", "--name", "b-cpu", "--device",
                                               "cpu", "--threads", "1"});
  std::string shares = "1,10";
  if (has_opencl()) {
    slaves.emplace_back(
        std::vector<std::string>{CONVOY_SLAVE, endpoint, "--insecure", "--name", "c-opencl", "--device", "opencl:0"});
    shares += ",9";
  }
  const SafetensorsFile mixed = train(scratch.path() + "/mixed", {"--slaves", std::to_string(slaves.size()), "--shares",
                                                                  shares, "--listen", endpoint, "--insecure"});
  const SafetensorsFile local = train(scratch.path() + "/local", {});

  expect_agreement(mixed, local, kRounding);
}

void expect_same_values(const SafetensorsFile& a, const SafetensorsFile& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) EXPECT_EQ(a.tensors[i].values, b.tensors[i].values) << i;
}

/// Starts a slave for each device, named s0, s1 and so on.
std::vector<Process> slaves_on(const std::vector<std::string>& devices, const std::string& endpoint) {
  std::vector<Process> slaves;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    slaves.emplace_back(std::vector<std::string>{CONVOY_SLAVE, endpoint, "--insecure", "--name",
                                                 "s" + std::to_string(i), "--device", devices[i], "--threads", "1"});
  }
  return slaves;
}

/// Slaves share the images, and all weights that a run saves are those of one slave, in each run of another. The runs
/// have the same bits only if all slaves updated to the same bits in all steps: 40, or as many as CONVOY_UPDATES says.
TEST_F(Aarch64, UpdatesToTheBitsOfOtherDevices) {
  if (!on_path("qemu-aarch64")) GTEST_SKIP() << "qemu-aarch64 is not installed (Debian: apt-get install qemu-user)";
  const char* asked = std::getenv("CONVOY_UPDATES");
  const int steps = asked != nullptr ? std::stoi(asked) : kSteps;
  const std::vector<std::string> devices{"cpu", "eigen"};  // UpdatesBySums in tests/exchange has OpenCL
  const std::vector<double> speeds{1.0, 8.0, 7.0};         // qemu is slow
  const std::vector<std::string> names{"a-phone", "s0", "s1"};
  const TemporaryFolder scratch;
  const std::vector<Stage> trunk = cut(read_net(kSource + "/nets/lenet-tanh.yaml")).trunk;
  const std::string file = scratch.path() + "/plan.json";
  for (const std::string optimizer : {"sgd", "adam"}) {
    std::vector<SafetensorsFile> weights;
    for (int owner = 0; owner < static_cast<int>(names.size()); ++owner) {
      const std::string endpoint = free_endpoint();
      std::vector<Process> slaves = slaves_on(devices, endpoint);
      slaves.push_back(phone(endpoint));
      Plan plan = proportional_plan(trunk, kBatch, names, speeds);
      plan.exchange = Exchange::ring;
      for (std::size_t s = 0; s < trunk.size(); ++s) {
        plan.stages[s] = rows_of(trunk[s], apportion(kBatch, speeds), speeds);
        plan.stages[s].owners = {Assignment{owner, {0, trunk[s].conv.filters}}};
      }
      write_text(file, to_json(plan));
      const std::string out = scratch.path() + "/" + optimizer + std::to_string(owner);
      weights.push_back(train(out,
                              {"--slaves", "3", "--plan", file, "--set", "training.optimizer=" + optimizer, "--set",
                               "training.learning_rate=0.001", "--listen", endpoint, "--insecure"},
                              "cpu", steps));
      // All members update by the sums of gradients, and no weights travel.
      EXPECT_EQ(plan_from_json(read_text(out + "/plan.json"), "plan.json").unequal, std::vector<int>());
      expect_same_values(weights.back(), weights.front());
    }
  }
}

/// Slaves share the images, and each updates all weights by itself. The last computes in double precision, says that
/// its updates have other bits, and is sent weights.
TEST(AlongImages, DevicesThatUpdateAlikeAndOneThatDoesNotTrainTogether) {
  const TemporaryFolder scratch;
  const std::string endpoint = free_endpoint();
  const std::vector<Process> slaves = slaves_on({"cpu", has_opencl() ? "opencl:0" : "eigen", "reference64"}, endpoint);
  const std::string out = scratch.path() + "/shared";
  const SafetensorsFile shared = train(out, {"--slaves", "3", "--shares", "14,1,1", "--layout", "samples", "--exchange",
                                             "ring", "--listen", endpoint, "--insecure"});
  EXPECT_EQ(plan_from_json(read_text(out + "/plan.json"), "plan.json").unequal, std::vector<int>{2});
  expect_agreement(shared, train(scratch.path() + "/local", {}), kRounding);
}

/// Trains on three slaves that share the first dense layer, each with a device of its own.
SafetensorsFile train_sharing_dense(const std::string& out, const std::string& exchange, int steps = kSteps) {
  const std::string endpoint = free_endpoint();
  const std::vector<Process> slaves = slaves_on({"cpu", has_opencl() ? "opencl:0" : "eigen", "eigen"}, endpoint);
  return train(out,
               {"--slaves", "3", "--shares", "3,2,1", "--dense", "members", "--exchange", exchange, "--listen",
                endpoint, "--insecure"},
               "cpu", steps);
}

TEST(SharedDenseLayers, TrainAsOnOneMachineAndGoOnThere) {
  const TemporaryFolder scratch;
  const SafetensorsFile local = train(scratch.path() + "/local", {});
  for (const std::string exchange : {"star", "ring"}) {
    const std::string out = scratch.path() + "/" + exchange;
    expect_agreement(train_sharing_dense(out, exchange), local, kRounding);
    // Two stages, three slices and their sum.
    EXPECT_EQ(plan_from_json(read_text(out + "/plan.json"), "plan.json").stages.size(), 6U);
  }
  const std::string out = scratch.path() + "/begun";
  train_sharing_dense(out, "ring", kSteps / 2);
  Process master({CONVOY_MASTER, "train", "--resume", out, "--slaves", "0", "--steps", std::to_string(kSteps)});
  ASSERT_EQ(master.wait(200s), kSuccess) << master.output();
  expect_agreement(read_safetensors(out + "/weights.safetensors"), local, kRounding);
}

TEST(SharedDenseLayers, ArePlannedWhereTheyPay) {
  const auto plan = [](const std::string& net, const std::vector<std::string>& more) {
    std::vector<std::string> words{CONVOY_MASTER, "plan", kSource + "/nets/" + net, "--machines", "4x240@1000"};
    words.insert(words.end(), more.begin(), more.end());
    Process process(words);
    EXPECT_EQ(process.wait(60s), kSuccess) << process.output();
    return process.output();
  };
  const std::string shared = "dense layer dense1: 10 units, 500x8x8 inputs in 16 slices";
  const std::string line = "micro-batches of 4, members share the first dense layer: a step takes about";
  EXPECT_THAT(plan("cifar10-50-500.yaml", {}), testing::AllOf(testing::HasSubstr(shared), testing::HasSubstr(line)));
  EXPECT_THAT(plan("cifar10-50-500.yaml", {"--dense", "master"}), testing::Not(testing::HasSubstr("share")));
  // The master computes this layer while the others compute something else.
  EXPECT_THAT(plan("cifar10-500-1500.yaml", {"--batch", "64"}), testing::Not(testing::HasSubstr("\ndense layer")));
  EXPECT_THAT(plan("cifar10-500-1500.yaml", {"--batch", "64", "--dense", "members"}),
              testing::HasSubstr("dense layer dense1: 10 units, 1500x8x8 inputs in 16 slices"));
  Process none(
      {CONVOY_MASTER, "plan", kSource + "/nets/resnet20.yaml", "--machines", "4x240@1000", "--dense", "members"});
  EXPECT_EQ(none.wait(60s), kFailure);
  EXPECT_THAT(none.output(),
              testing::HasSubstr("--dense members: the first dense layer cannot be shared: layer dense1 reads single"));
}

/// The device has the values of the dense layers, and gives them to checkpoints, to tests of the net and to the
/// weights' file.
TEST(HeadsOnADevice, TrainGoOnAndTestLikeThoseOfTheHost) {
  const TemporaryFolder scratch;
  const std::vector<std::string> there{"--heads", "device"};
  const std::string out = scratch.path() + "/there";
  const SafetensorsFile whole = train(out, there, "eigen");
  const SafetensorsFile host = train(scratch.path() + "/host", {"--heads", "host"});
  expect_agreement(whole, host, kRounding);
  // A program that meets OpenCL compiles kernels for ten seconds, so one run must do.
  if (has_opencl()) expect_agreement(train(scratch.path() + "/opencl", there, "opencl:0"), host, kRounding);

  const std::string folder = scratch.path() + "/parts";
  train(folder, there, "eigen", kSteps / 2);
  Process rest({CONVOY_MASTER, "train", "--resume", folder, "--steps", std::to_string(kSteps)});
  ASSERT_EQ(rest.wait(200s), kSuccess) << rest.output();
  expect_same_values(read_safetensors(folder + "/weights.safetensors"), whole);

  std::vector<std::string> tests;
  for (const std::string heads : {"device", "host"}) {
    Process test({CONVOY_MASTER, "test", kSource + "/nets/lenet-tanh.yaml", "--weights", out + "/weights.safetensors",
                  "--device", "eigen", "--heads", heads, "--meter", "none"});
    ASSERT_EQ(test.wait(200s), kSuccess) << test.output();
    std::smatch accuracy;
    const std::string text = test.output();
    ASSERT_TRUE(std::regex_search(text, accuracy, std::regex("[0-9.]+ ?%"))) << text;
    tests.push_back(accuracy.str());
  }
  EXPECT_EQ(tests[0], tests[1]);
}

/// Each micro-batch goes through the head when it arrives.
TEST(HeadsOnADevice, TakeTheMicroBatchesOfSlaves) {
  const TemporaryFolder scratch;
  const std::string endpoint = free_endpoint();
  std::vector<Process> slaves;
  for (const std::string name : {"a", "b"}) {
    slaves.emplace_back(std::vector<std::string>{CONVOY_SLAVE, endpoint, "--insecure", "--name", name, "--device",
                                                 "cpu", "--threads", "1"});
  }
  const SafetensorsFile shared =
      train(scratch.path() + "/shared", {"--slaves", "2", "--shares", "1,1", "--micro-batch", "8", "--heads", "device",
                                         "--listen", endpoint, "--insecure"});
  expect_agreement(shared, train(scratch.path() + "/local", {}), kRounding);
}

TEST(HeadsOnADevice, AreRefusedWhereNothingIsComputed) {
  const TemporaryFolder scratch;
  Process master({CONVOY_MASTER, "train", kSource + "/nets/lenet-tanh.yaml", "--device", "paced:240", "--heads",
                  "device", "--out", scratch.path() + "/run"});
  EXPECT_EQ(master.wait(60s), kFailure);
  EXPECT_THAT(master.output(), testing::HasSubstr("--heads device has no meaning with --device paced:240"));
}

}  // namespace
}  // namespace convoy
