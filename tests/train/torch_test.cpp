// Compares the nets in nets/, at a reduced size, with PyTorch: outputs, gradients, and the losses of ten steps.
// PyTorch's results are in tests/torch, where make_golden.py has written them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "devices/registry.hpp"
#include "tests/support/source_folder.hpp"
#include "tests/support/trunk_on_values.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

using Json = nlohmann::json;

const std::string kGoldens = source_folder() + "/tests/torch";

/// Values uniform in [-1, 1), the same as make_golden.py draws for the name.
std::vector<double> draw(const std::string& name, std::size_t count) {
  const std::uint64_t seed = crc32(0, reinterpret_cast<const Bytef*>(name.data()), static_cast<uInt>(name.size()));
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto x = static_cast<std::uint32_t>(i * 2654435761U + seed);
    x = (x ^ (x >> 16U)) * 0x45D9F3B5U;
    x = (x ^ (x >> 15U)) * 0x2F0B4C47U;
    x = x ^ (x >> 16U);
    values[i] = static_cast<double>(x) / 2147483648.0 - 1.0;
  }
  return values;
}

/// Fills a parameter. Weights have the standard deviation of He et al. (ICCV 2015).
void fill(const std::string& name, bool factors, Tensor& tensor) {
  const double scale = factors ? std::sqrt(6.0 / static_cast<double>(tensor.shape().sample_size())) : 0.1;
  const std::vector<double> values = draw(name, tensor.size());
  for (std::size_t i = 0; i < values.size(); ++i) tensor.data()[i] = static_cast<float>(scale * values[i]);
}

ModelState start_of(const Cut& cut) {
  ModelState state;
  for (std::size_t s = 0; s < cut.trunk.size(); ++s) {
    const Stage& stage = cut.trunk[s];
    state.trunk.push_back(zero_state(stage, stage.conv.filters));
    const std::vector<ParameterSpec> specs = parameters_of(stage, stage.conv.filters);
    for (std::size_t p = 0; p < specs.size(); ++p) {
      if (!specs[p].trained) continue;
      Tensor& values = state.trunk.back().parameters[p].value;
      const bool list = cut.has_list(s) || p >= convolution_parameters(stage);
      fill(specs[p].name, p == 0 && !list, values);
      const bool of_norm = list && specs[p].name.ends_with(".weight");
      if (of_norm) {
        for (float& value : values.span()) value += 1.0F;
      }
    }
  }
  state.head = Heads(cut, 1).states();
  for (DenseState<float>& dense : state.head) {
    fill(dense.name + ".weight", true, dense.weights.value);
    fill(dense.name + ".bias", false, dense.bias.value);
  }
  return state;
}

/// All trained parameters, by name.
std::map<std::string, const Tensor*> named(const Cut& cut, const ModelState& state) {
  std::map<std::string, const Tensor*> all;
  for (std::size_t s = 0; s < cut.trunk.size(); ++s) {
    const std::vector<ParameterSpec> specs = parameters_of(cut.trunk[s], cut.trunk[s].conv.filters);
    for (std::size_t p = 0; p < specs.size(); ++p) {
      if (specs[p].trained) all[specs[p].name] = &state.trunk[s].parameters[p].value;
    }
  }
  for (const DenseState<float>& dense : state.head) {
    all[dense.name + ".weight"] = &dense.weights.value;
    all[dense.name + ".bias"] = &dense.bias.value;
  }
  return all;
}

/// Tolerance, as a multiple of the error of PyTorch in single precision.
constexpr double kRoundings = 5.0;

class AgainstTorch : public testing::TestWithParam<std::string> {
 protected:
  AgainstTorch()
      : golden_(Json::parse(std::ifstream(kGoldens + "/" + GetParam() + ".json"))),
        net_(read_net(source_folder() + "/nets/" + golden_.at("net").get<std::string>() + ".yaml",
                      golden_.at("set").get<Overrides>())),
        cut_(cut(net_)),
        batch_(golden_.at("batch")),
        device_(make_device("cpu", {.threads = 2})),
        images_{Pixels({batch_, net_.input.channels, net_.input.height, net_.input.width}), {}},
        trunk_(cut_.trunk, images_.shape(), *device_),
        learner_(trunk_, cut_, batch_),
        start_(std::make_shared<const ModelState>(start_of(cut_))) {
    learner_.load({start_});
  }

  BatchLoss step(int number, const std::function<UpdateStep(double)>& update) {
    const std::vector<double> values = draw(fmt::format("images{}", number), images_.shape().size());
    trunk_.values = Tensor(images_.shape());
    for (std::size_t i = 0; i < values.size(); ++i) trunk_.values.data()[i] = static_cast<float>(values[i]);
    std::vector<int> labels;
    for (const double value : draw(fmt::format("labels{}", number), static_cast<std::size_t>(batch_))) {
      labels.push_back(static_cast<int>((value + 1.0) / 2.0 * net_.classes));
    }
    const Pass pass{.training = true, .seed = 1, .squares = net_.training.clip > 0.0};
    return train_step(learner_, images_, labels, pass, update);
  }

  /// The gradients of the first step, found as the change of the parameters in an update with a learning rate of 1.
  ModelState gradients() {
    step(0, [](double) { return UpdateStep{.learning_rate = 1.0F}; });
    ModelState state = *learner_.state();
    const auto before = named(cut_, *start_);
    for (const auto& [name, after] : named(cut_, state)) {
      auto& values = const_cast<Tensor&>(*after);
      for (std::size_t i = 0; i < values.size(); ++i) values.data()[i] = before.at(name)->data()[i] - values.data()[i];
    }
    learner_.load({start_});
    return state;
  }

  Json golden_;
  Net net_;
  Cut cut_;
  int batch_;
  std::unique_ptr<Device> device_;
  Images images_;  ///< stand for the values of the trunk
  TrunkOnValues trunk_;
  NetLearner learner_;
  std::shared_ptr<const ModelState> start_;
};

TEST_P(AgainstTorch, OutputsGradientsAndLossesAreTheSame) {
  const ModelState found = gradients();
  const auto outputs = golden_.at("outputs").get<std::vector<double>>();
  const double off = golden_.at("outputs_off");
  double largest = 0.0;
  for (const double value : outputs) largest = std::max(largest, std::abs(value));
  ASSERT_EQ(outputs.size(), learner_.heads().outputs().size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_NEAR(learner_.heads().outputs().data()[i], outputs[i], 2e-5 * largest + kRoundings * off) << "output " << i;
  }
  const auto gradients = named(cut_, found);
  ASSERT_EQ(gradients.size(), golden_.at("gradients").size());
  for (const auto& [name, gradient] : gradients) {
    SCOPED_TRACE(name);
    const auto expected = golden_.at("gradients").at(name).get<std::vector<double>>();
    const double norm = std::sqrt(sum_of_squares(gradient->span()));
    // Most values agree to six digits. Where a sum in a deep net is next to 0, rounding decides the slope of a ReLU.
    const double tolerance = (1e-2 + kRoundings * golden_.at("gradients_off").get<double>()) * expected[0] + 1e-6;
    EXPECT_NEAR(norm, expected[0], tolerance);
    const std::vector<double> other = draw(name + "'", gradient->size());
    double product = 0.0;
    for (std::size_t i = 0; i < gradient->size(); ++i) product += other[i] * gradient->data()[i];
    EXPECT_NEAR(product, expected[1], tolerance);
    const std::size_t samples = expected.size() - 2;
    for (std::size_t i = 0; i < samples; ++i) {
      EXPECT_NEAR(gradient->data()[i * gradient->size() / samples], expected[2 + i], tolerance) << "sample " << i;
    }
  }
  int number = 0;
  for (const double expected : golden_.at("losses")) {
    const BatchLoss loss = step(
        number, [&](double norm) { return update_step(net_.training, net_.training.learning_rate, number + 1, norm); });
    const double off = golden_.at("losses_off")[number];
    EXPECT_NEAR(loss.sum / batch_, expected, 1e-3 * expected + kRoundings * off) << "step " << number;
    ++number;
  }
}

std::vector<std::string> goldens() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldens)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Nets, AgainstTorch, testing::ValuesIn(goldens()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace convoy
