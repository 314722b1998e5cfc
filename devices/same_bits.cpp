#include "devices/same_bits.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/random.hpp"

namespace convoy {
namespace {

constexpr int kUpdates = 3;  ///< by each rule

Stage small_stage() {
  return {.name = "update",
          .channels = 16,
          .height = 1,
          .width = 1,
          .conv = {.filters = 32, .kernel_h = 1, .kernel_w = 1},
          .after = {},
          .moments = moments_of(Optimizer::adam)};
}

/// Returns a value with a mantissa of all bits, in turn of the size of weights, and so small or large that results
/// are denormal or overflow; or a value at the edge of its kind.
float awkward_value(Random& random, std::size_t i) {
  using Limits = std::numeric_limits<float>;
  constexpr std::array<float, 10> kEdges{0.0F,
                                         -0.0F,
                                         Limits::denorm_min(),
                                         -Limits::denorm_min(),
                                         Limits::min(),
                                         -Limits::min(),
                                         Limits::epsilon(),
                                         1.0F + Limits::epsilon(),
                                         0x1.fffffep-127F,
                                         -0x1.8p100F};
  if (i % 8 == 7) return kEdges[random.below(kEdges.size())];
  const float mantissa = random.uniform(-1.0F, 1.0F) + random.uniform(-0x1p-24F, 0x1p-24F);
  const int exponent = i % 4 < 2    ? 0
                       : i % 4 == 2 ? -static_cast<int>(random.below(149))
                                    : static_cast<int>(random.below(60)) - 20;
  return std::ldexp(mantissa, exponent);
}

void draw(Random& random, Tensor& values, bool squares) {
  std::size_t i = 0;
  for (float& value : values.span()) value = awkward_value(random, i++ + (squares ? 3 : 0));
  if (!squares) return;
  for (float& value : values.span()) value = std::abs(value);
}

bool same(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.span(), b.span(), [](float one, float other) {
    return std::bit_cast<std::uint32_t>(one) == std::bit_cast<std::uint32_t>(other) ||
           (std::isnan(one) && std::isnan(other));
  });
}

void update_by_definition(const UpdateStep& step, const std::vector<Tensor>& gradients, ShardState& state) {
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    Parameter& parameter = state.parameters[p];
    const std::array<float*, 2> moments{parameter.moments[0].data(), parameter.moments[1].data()};
    update_values(step, gradients[p].data(), parameter.value.data(), moments.data(), 0, gradients[p].size());
  }
}

bool keeps_to(const UpdateStep& step, Shard& shard) {
  Random random(1, static_cast<std::uint64_t>(step.optimizer));
  ShardState expected = zero_state(shard.spec().stage, shard.spec().filters.count);
  for (Parameter& parameter : expected.parameters) {
    draw(random, parameter.value, false);
    draw(random, parameter.moments[0], false);
    draw(random, parameter.moments[1], true);
  }
  shard.set_state(expected);
  for (int i = 0; i < kUpdates; ++i) {
    std::vector<Tensor> gradients;
    for (const Parameter& parameter : expected.parameters) {
      draw(random, gradients.emplace_back(parameter.value.shape()), false);
    }
    shard.set_gradients(gradients);
    shard.update(step);
    update_by_definition(step, gradients, expected);
  }
  const ShardState updated = shard.state();
  for (std::size_t p = 0; p < expected.parameters.size(); ++p) {
    const Parameter& got = updated.parameters[p];
    const Parameter& due = expected.parameters[p];
    if (!same(got.value, due.value) || !same(got.moments[0], due.moments[0])) return false;
    if (step.optimizer == Optimizer::adam && !same(got.moments[1], due.moments[1])) return false;
  }
  return true;
}

}  // namespace

bool updates_to_same_bits(Device& device) {
  if (device.info().paced) return true;
  if (!device.info().rounds_correctly) return false;
  const Stage stage = small_stage();
  const std::array<UpdateStep, 3> rules{
      {{.learning_rate = 0.0123F, .momentum = 0.9F, .weight_decay = 5e-4F, .gradient_scale = 0.37F},
       {.optimizer = Optimizer::nesterov, .learning_rate = 0.07F, .momentum = 0.95F, .weight_decay = 1e-4F},
       {.optimizer = Optimizer::adam,
        .learning_rate = 1e-3F,
        .momentum = 0.9F,
        .weight_decay = 1e-4F,
        .beta2 = 0.999F,
        .epsilon = 1e-8F,
        .correction1 = 0.271F,
        .correction2 = 2.997e-3F,
        .gradient_scale = 0.7F}}};
  try {
    const std::unique_ptr<Shard> shard =
        device.compile({.stage = stage, .filters = {0, stage.conv.filters}, .batch = 1, .input_gradient = false});
    return std::ranges::all_of(rules, [&](const UpdateStep& step) { return keeps_to(step, *shard); });
  } catch (const DeviceLost&) {
    throw;
  } catch (const Error&) {
    return false;  // "check:A,B" compares the two itself
  }
}

}  // namespace convoy
