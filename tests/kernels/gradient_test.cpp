// Checks the reference's analytic gradients against central differences, in double precision, for the convolution and
// every channel layer.

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "kernels/reference/device.hpp"
#include "tests/support/central_difference.hpp"
#include "tests/support/stage_cases.hpp"

namespace convoy {
namespace {

constexpr double kStepSize = 1e-4;
constexpr Pass kPass{.training = true, .seed = 77};

class Gradients : public testing::TestWithParam<StageCase> {
 protected:
  Gradients() : spec_(GetParam().spec), shard_(spec_), input_(input_shape(spec_.stage, spec_.batch)), slope_(output()) {
    shard_.set_state(random_state(spec_));
    input_.write(random_input(spec_).span());
    slope_.write(random_output_gradient(spec_).span());
    for (const Tensor& maps : random_added(spec_)) {
      added_.push_back(std::make_unique<HostTensor<double>>(maps.shape()));
      added_.back()->write({0, maps.shape().n}, maps.span());
      shard_.connect(added_.size() - 1, *added_.back());
    }
  }

  Shape output() const { return output_shape(spec_.stage, spec_.batch, spec_.filters.count); }

  /// The loss sum(output * slope_), whose gradient by the output is slope_.
  double loss() {
    const auto& out = host_values<double>(shard_.forward(input_, kPass));
    double sum = 0.0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out.data()[i] * slope_.values.data()[i];
    return sum;
  }

  /// The central difference, computed at two step sizes. Returns nothing if they differ, as they do across a kink of
  /// ReLU or max.
  std::optional<double> difference(double& value) {
    const auto at_step = [&](double step) {
      return central_difference(
          value, [this] { return loss(); }, step);
    };
    const double coarse = at_step(kStepSize);
    const double fine = at_step(kStepSize / 8.0);
    if (std::abs(coarse - fine) > 1e-5 * (1.0 + std::abs(fine))) return std::nullopt;
    return fine;
  }

  void check(BasicTensor<double>& values, const BasicTensor<double>& gradient, const std::string& what) {
    // Only some values are checked, so that large cases stay quick.
    const std::size_t stride = std::max<std::size_t>(1, values.size() / 20);
    std::size_t checked = 0;
    std::size_t kinks = 0;
    for (std::size_t i = 0; i < values.size(); i += stride) {
      const auto expected = difference(values.data()[i]);
      ++checked;
      kinks += expected ? 0 : 1;
      if (!expected) continue;
      ASSERT_NEAR(gradient.data()[i], *expected, 1e-6 * (1.0 + std::abs(*expected))) << what << " " << i;
    }
    EXPECT_LE(kinks * 4, checked) << what << ": too many of the checked values lie on kinks";
  }

  ShardSpec spec_;
  ReferenceShard<double> shard_;
  HostTensor<double> input_;
  HostTensor<double> slope_;
  std::vector<std::unique_ptr<HostTensor<double>>> added_;
};

TEST_P(Gradients, MatchCentralDifferences) {
  loss();
  const DeviceTensor* by_input = shard_.backward(slope_);
  const std::vector<HostParameter<double>> analytic = shard_.parameters.all();
  const std::vector<ParameterSpec> specs = parameters_of(spec_.stage, spec_.filters.count);
  std::vector<BasicTensor<double>> by_added;
  for (std::size_t i = 0; i < added_.size(); ++i) by_added.push_back(host_values<double>(shard_.added_gradient(i)));
  for (std::size_t i = 0; i < added_.size(); ++i) check(added_[i]->values, by_added[i], "sum");
  for (std::size_t p = 0; p < specs.size(); ++p) {
    if (specs[p].trained) check(shard_.parameters.all()[p].value, analytic[p].gradient, specs[p].name);
  }
  if (by_input != nullptr) {
    const BasicTensor<double> slopes = host_values<double>(*by_input);
    check(input_.values, slopes, "input");
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Gradients, testing::ValuesIn(stage_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace convoy
