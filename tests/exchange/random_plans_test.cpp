// Trains nets drawn from seeds under plans drawn from seeds, and compares them with one device that knows no plan.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>

#include "nets/graph/net.hpp"
#include "tests/exchange/nodes.hpp"
#include "tests/support/plain_trunk.hpp"
#include "tests/support/random_net.hpp"
#include "tests/support/random_plan.hpp"

namespace convoy {
namespace {

constexpr int kRandomBatch = 12;
constexpr int kRandomSteps = 3;
// Values of batch norms over few samples amplify what sums in another order round.
constexpr float kTolerance = 2e-4F;

Images random_images(const Stages& trunk, int step) {
  return noise_images(input_shape(trunk[0], kRandomBatch), 3, 100 + static_cast<std::uint64_t>(step));
}

/// What happens between the steps of a training.
struct Course {
  bool squares = true;                     ///< whether somebody reads the squares of the gradients before each update
  std::array<bool, kRandomSteps> tests{};  ///< by step, whether a test follows
  std::array<bool, kRandomSteps> looks{};  ///< by step, whether somebody reads the weights after it
};

Course draw_course(std::uint64_t seed) {
  Random random(seed, 29);
  Course course{.squares = random.below(2) == 0};
  for (int i = 0; i < kRandomSteps; ++i) {
    course.tests[i] = random.below(3) == 0;
    course.looks[i] = random.below(4) == 0;
  }
  return course;
}

/// Trains a trunk or nodes for some steps, then tests.
template <class Network>
Result trained(Network& network, const Stages& trunk, const Course& course,
               const std::function<std::vector<ShardState>()>& states) {
  Result result;
  for (int i = 0; i < kRandomSteps; ++i) {
    const auto number = static_cast<std::size_t>(i);
    if constexpr (std::is_same_v<Network, Nodes>) {
      network.train(random_images(trunk, i), i);
    } else {
      network.forward(random_images(trunk, i), pass_of(i));
      network.backward(pointers(gradients_of(network, trunk, i)));
    }
    UpdateStep step = kSgd;
    step.gradient_scale = 0.01F;
    if (course.squares) {
      result.squares.push_back(network.gradient_squares());
      step.gradient_scale =
          result.squares.back() > 1.0 ? static_cast<float>(1.0 / std::sqrt(result.squares.back())) : 1.0F;
    }
    network.update(step);
    if (course.tests[number]) network.forward(random_images(trunk, kRandomSteps + 1 + i), {});
    if (course.looks[number]) states();
  }
  result.tested = network.forward(random_images(trunk, kRandomSteps), {});
  result.states = states();
  return result;
}

Result trained_by_plan(const Plan& plan, const Stages& trunk, const std::string& device, std::uint64_t seed,
                       const Course& course) {
  Nodes nodes(plan, trunk, device, seed, start(trunk));
  return trained(nodes, trunk, course, [&] { return nodes.states(); });
}

Result trained_without_plan(const Stages& trunk, const std::string& device_name, const Course& course) {
  const auto device = make_device(device_name, {.threads = 1});
  PlainTrunk local(trunk, input_shape(trunk[0], kRandomBatch), *device);
  local.load(start(trunk));
  return trained(local, trunk, course, [&] { return local.snapshot(); });
}

/// The largest difference between the states of two results.
double largest_difference(const Result& a, const Result& b) {
  double largest = 0.0;
  for (std::size_t s = 0; s < a.states.size(); ++s) {
    std::vector<const Tensor*> others;
    for_each_tensor(b.states[s], [&](const Tensor& tensor) { others.push_back(&tensor); });
    auto other = others.begin();
    for_each_tensor(a.states[s], [&](const Tensor& tensor) {
      for (std::size_t i = 0; i < tensor.size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(tensor.data()[i]) - (*other)->data()[i]));
      }
      ++other;
    });
  }
  return largest;
}

/// Freezes layers of a net at random: in half of the nets each layer by itself, in the others all up to one. The rest
/// get learning rates of their own.
void freeze_some(Net& net, std::uint64_t seed) {
  Random random(seed, 23);
  const bool prefix = random.below(2) == 0;
  const std::size_t from = random.below(static_cast<std::uint32_t>(net.layers.size()));
  constexpr std::array kRates{1.0F, 0.5F, 2.0F};
  for (std::size_t i = 0; i < net.layers.size(); ++i) {
    const bool frozen = prefix ? i < from : random.below(2) == 0;
    if (has_weights(net.layers[i])) net.layers[i].rate = frozen ? 0.0F : kRates[random.below(3)];
  }
}

/// Expects that the frozen layers of a trunk have their first weights.
void expect_frozen(const Result& result, const Stages& trunk) {
  const std::vector<ShardState> first = start(trunk);
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    const std::vector<ParameterSpec> specs = parameters_of(trunk[s], trunk[s].conv.filters);
    bool frozen = false;
    for (std::size_t p = 0; p < specs.size(); ++p) {
      // Running averages belong to the weights and biases before them.
      frozen = specs[p].trained ? false : frozen || specs[p].rate == 0.0F;
      if (!frozen) continue;
      EXPECT_TRUE(std::ranges::equal(result.states[s].parameters[p].value.span(), first[s].parameters[p].value.span()))
          << specs[p].name;
    }
  }
}

/// Expects that the order of arrivals makes no difference either where values travel in fewer bits.
void expect_same_bits_in_any_order(Plan plan, std::uint64_t number, const Stages& trunk, const std::string& device,
                                   const Course& course) {
  plan.wire = std::array{NumberType::bf16, NumberType::fp16, NumberType::int8}[number % 3];
  EXPECT_TRUE(
      same_bits(trained_by_plan(plan, trunk, device, 4, course), trained_by_plan(plan, trunk, device, 5, course)))
      << "another order of arrivals, in " << to_string(plan.wire);
}

/// Equality for seeds from 1 on; CONVOY_RANDOM_PLANS says how many.
void expect_equality(bool freeze, std::uint64_t usual) {
  const char* asked = std::getenv("CONVOY_RANDOM_PLANS");
  const std::uint64_t seeds = asked != nullptr ? std::stoul(asked) : usual;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::string text = random_net(seed);
    Net net = parse_net(text, "random.yaml");
    if (freeze) freeze_some(net, seed);
    const Stages trunk = cut(net).trunk;
    if (std::ranges::none_of(trunk, has_trained_parameters)) continue;
    const std::string device_name = seed % 4 == 0 ? "cpu" : seed % 4 == 1 ? "reference" : "eigen";
    const Course course = draw_course(seed);
    const Result expected = trained_without_plan(trunk, device_name, course);
    // Where rounding sends a value through the other side of a ReLU, devices differ, and so may plans.
    float tolerance = kTolerance;
    for (const std::string other : {"cpu", "eigen", "reference"}) {
      const Result result = trained_without_plan(trunk, other, course);
      tolerance = std::max(tolerance, kTolerance + 4 * static_cast<float>(largest_difference(result, expected)));
    }
    for (std::uint64_t drawn = 1; drawn <= 3; ++drawn) {
      const Plan plan = PlanDrawer(trunk, kRandomBatch, 10 * seed + drawn).draw();
      SCOPED_TRACE(fmt::format("seed {}, plan {} on {}\n{}\n{}", seed, drawn, device_name, text, to_json(plan)));
      EXPECT_EQ(plan_from_json(to_json(plan), "plan.json"), plan);
      const Result once = trained_by_plan(plan, trunk, device_name, 1, course);
      expect_close(once, expected, tolerance);
      expect_frozen(once, trunk);
      EXPECT_TRUE(same_bits(once, trained_by_plan(plan, trunk, device_name, 2, course))) << "another order of arrivals";
      if (!plan.unequal.empty()) {
        Plan by_sums = plan;
        by_sums.unequal.clear();
        EXPECT_TRUE(same_bits(once, trained_by_plan(by_sums, trunk, device_name, 3, course)))
            << "sums instead of weights";
      }
      if (drawn == 1 + seed % 3) expect_same_bits_in_any_order(plan, seed / 3, trunk, device_name, course);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(RandomPlans, TrainRandomNetsAsOneDeviceDoes) { expect_equality(false, 30); }

TEST(RandomPlans, TrainNetsWithFrozenLayersAsOneDeviceDoes) { expect_equality(true, 30); }

}  // namespace
}  // namespace convoy
