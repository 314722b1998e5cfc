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
#include "tests/support/tiles.hpp"

namespace convoy {
namespace {

constexpr int kRandomBatch = 12;
constexpr int kRandomSteps = 3;
// Values of batch norms over few samples amplify what sums in another order round.
constexpr float kTolerance = 2e-4F;

/// Draws plans of a trunk.
class PlanDrawer {
 public:
  PlanDrawer(const Stages& trunk, std::uint64_t seed) : trunk_(trunk), random_(seed, 17) {}

  Plan draw() {
    const int members = between(1, 5);
    const bool own = random_.below(2) == 0;
    std::vector<double> speeds;
    for (int i = 0; i < members; ++i) speeds.push_back(between(1, 4));
    Plan plan = proportional_plan(trunk_, kRandomBatch, member_names(members, own), speeds);
    set_micro_batches(plan, between(1, 3));
    plan.exchange = random_.below(2) == 0 ? Exchange::star : Exchange::ring;
    plan.relayed = plan.exchange == Exchange::ring && random_.below(2) == 0;
    for (std::size_t s = 0; s < trunk_.size(); ++s) plan.stages[s] = stage(plan, s);
    for (int i = 0; i < members; ++i) {
      if (random_.below(6) == 0) plan.unequal.push_back(i);
    }
    validate(plan, trunk_);
    return plan;
  }

 private:
  int between(int least, int most) {
    return least + static_cast<int>(random_.below(static_cast<std::uint32_t>(most - least + 1)));
  }
  /// Divides `total` at random into `parts` consecutive counts, of which each is at least `least`.
  std::vector<int> divided(int total, int parts, int least) {
    std::vector<int> counts(static_cast<std::size_t>(parts), least);
    for (int left = total - parts * least; left > 0; --left) ++counts[random_.below(static_cast<std::uint32_t>(parts))];
    return counts;
  }

  /// Draws rows, the members of each, and their filters. Some members may have none.
  StagePlan stage(const Plan& plan, std::size_t s) {
    const std::vector<int> outputs = outputs_of(trunk_);
    const bool last = std::ranges::find(outputs, static_cast<int>(s)) != outputs.end();
    if (everywhere(plan.stages[s]) && random_.below(2) == 0) return plan.stages[s];
    std::vector<int> members;
    for (int i = 0; i < static_cast<int>(plan.members.size()); ++i) {
      members.insert(members.begin() + between(0, i), i);
    }
    const int rows = between(1, std::min(static_cast<int>(members.size()), micro_batch_size(plan)));
    const std::vector<int> samples = divided(micro_batch_size(plan), rows, 1);
    const std::vector<int> sizes = divided(static_cast<int>(members.size()), rows, 1);
    const int all = trunk_[s].conv.filters;
    const std::vector<int> owned = divided(all, rows, 0);
    StagePlan planned;
    int sample = 0;
    int owner = 0;
    std::size_t next = 0;
    for (std::size_t r = 0; r < samples.size(); ++r) {
      Row row{{sample, samples[r]}, {}};
      int filter = 0;
      for (const int count : divided(all, sizes[r], 0)) {
        const int member = members[next++];
        if (count > 0) row.shards.push_back({member, {filter, count}});
        filter += count;
      }
      for (const Assignment& shard : row.shards) {
        const FilterRange part = common(shard.filters, FilterRange{owner, owned[r]});
        if (part.count > 0) planned.owners.push_back({shard.member, part});
      }
      owner += owned[r];
      sample += samples[r];
      planned.rows.push_back(std::move(row));
    }
    if (rows == 1 || !has_parameters(trunk_[s])) planned.owners.clear();
    planned.replicated = rows == 1 && !last && has_parameters(trunk_[s]) &&
                         traits_of(plan.exchange).replicated_weights && random_.below(4) == 0;
    return planned;
  }

  const Stages& trunk_;
  Random random_;
};

Images random_images(const Stages& trunk, int step) {
  return noise_images(input_shape(trunk[0], kRandomBatch), 3, 100 + static_cast<std::uint64_t>(step));
}

/// Trains a trunk or nodes for some steps, then tests.
template <class Network>
Result trained(Network& network, const Stages& trunk, const std::function<std::vector<ShardState>()>& states) {
  Result result;
  for (int i = 0; i < kRandomSteps; ++i) {
    if constexpr (std::is_same_v<Network, Nodes>) {
      network.train(random_images(trunk, i), i);
    } else {
      network.forward(random_images(trunk, i), pass_of(i));
      network.backward(pointers(gradients_of(network, trunk, i)));
    }
    result.squares.push_back(network.gradient_squares());
    UpdateStep step = kSgd;
    if (result.squares.back() > 1.0) step.gradient_scale = static_cast<float>(1.0 / std::sqrt(result.squares.back()));
    network.update(step);
  }
  result.tested = network.forward(random_images(trunk, kRandomSteps), {});
  result.states = states();
  return result;
}

Result trained_by_plan(const Plan& plan, const Stages& trunk, const std::string& device, std::uint64_t seed) {
  Nodes nodes(plan, trunk, device, seed, start(trunk));
  return trained(nodes, trunk, [&] { return nodes.states(); });
}

/// Freezes layers of a net at random: in half of the nets each layer by itself, in the others all up to one. The rest get
/// learning rates of their own.
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
    const auto device = make_device(device_name, {.threads = 1});
    PlainTrunk local(trunk, input_shape(trunk[0], kRandomBatch), *device);
    local.load(start(trunk));
    const Result expected = trained(local, trunk, [&] { return local.snapshot(); });
    for (std::uint64_t drawn = 1; drawn <= 3; ++drawn) {
      const Plan plan = PlanDrawer(trunk, 10 * seed + drawn).draw();
      SCOPED_TRACE(fmt::format("seed {}, plan {} on {}\n{}\n{}", seed, drawn, device_name, text, to_json(plan)));
      EXPECT_EQ(plan_from_json(to_json(plan), "plan.json"), plan);
      const Result once = trained_by_plan(plan, trunk, device_name, 1);
      expect_close(once, expected, kTolerance);
      expect_frozen(once, trunk);
      EXPECT_TRUE(same_bits(once, trained_by_plan(plan, trunk, device_name, 2))) << "another order of arrivals";
      if (!plan.unequal.empty()) {
        Plan by_sums = plan;
        by_sums.unequal.clear();
        EXPECT_TRUE(same_bits(once, trained_by_plan(by_sums, trunk, device_name, 3))) << "sums instead of weights";
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(RandomPlans, TrainRandomNetsAsOneDeviceDoes) { expect_equality(false, 30); }

TEST(RandomPlans, TrainNetsWithFrozenLayersAsOneDeviceDoes) { expect_equality(true, 30); }

}  // namespace
}  // namespace convoy
