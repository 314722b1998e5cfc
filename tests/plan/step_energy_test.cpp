// Tests the joules of steps against closed forms, and the plans that save energy.

#include "plan/step_energy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "plan/choose.hpp"
#include "tests/plan/pooled_stage.hpp"

namespace convoy {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kImages = 8;
constexpr Power kSlavePower{.idle = 2.0, .compute = 20.0, .transfer = 5.0};
constexpr Power kMasterPower{.idle = 3.0, .compute = 30.0, .transfer = 7.0};

MemberProfile with_power(const std::string& name, const std::optional<Power>& power) {
  return {.name = name, .stages = {}, .power = power};
}

/// One stage on one slave, with times of its own for each task, behind a link of 1 MB/s.
Simulated step_of_one_slave(const std::vector<Stage>& trunk) {
  const Plan plan = proportional_plan(trunk, kImages, {"slave"}, {1.0});
  ClusterModel cluster;
  cluster.links.assign(2, {1e6, 1e6});
  cluster.byte_costs.resize(2);
  cluster.compute = [](const Task& task) {
    switch (task.kind) {
      case TaskKind::forward: return 0.3;
      case TaskKind::backward_filters: return 0.5;
      case TaskKind::update: return 0.05;
      case TaskKind::head: return 0.2;
      case TaskKind::head_update: return 0.1;
      default: return 0.0;
    }
  };
  return simulate(make_task_graph(plan, trunk), plan, trunk, cluster);
}

TEST(StepEnergy, IsThatOfTheClosedForm) {
  const std::vector<Stage> trunk{pooled_stage("conv1", 3, 32, 50)};
  const Simulated step = step_of_one_slave(trunk);
  // The maps travel to the master and their gradient travels back. The images of the next step travel while the slave
  // finds its weights' gradient; they take less time than that.
  const double maps = static_cast<double>(output_shape(trunk[0], kImages, 50).size()) * sizeof(float) / 1e6;
  const double images = static_cast<double>(input_shape(trunk[0], kImages).size()) / 1e6;  // a byte for each value
  ASSERT_LT(images, 0.5);
  const double busy = 0.3 + 0.5 + 0.05;
  const double period = busy + 0.2 + 2 * maps;
  ASSERT_EQ(step.nodes.size(), 2U);
  EXPECT_NEAR(step.seconds, period, 1e-9);
  EXPECT_NEAR(step.nodes[0].busy, busy, 1e-9);
  EXPECT_NEAR(step.nodes[0].moving, 2 * maps, 1e-9);
  EXPECT_NEAR(step.nodes[1].busy, 0.2 + 0.1, 1e-9);
  // The master updates its head while it sends the gradient, so that 0.1 s of its sending count as computing.
  EXPECT_NEAR(step.nodes[1].moving, 2 * maps + images - 0.1, 1e-9);
  const double slave = 20.0 * busy + 5.0 * 2 * maps + 2.0 * 0.2;
  const double sending = 2 * maps + images - 0.1;
  const double master = 30.0 * 0.3 + 7.0 * sending + 3.0 * (period - 0.3 - sending);
  const StepEnergy energy =
      energy_of(step, {with_power("slave", kSlavePower)}, {.head = {}, .power = kMasterPower}, {.switch_watts = 4.0});
  EXPECT_NEAR(energy.nodes.at(0).value(), slave, 1e-9);
  EXPECT_NEAR(energy.nodes.at(1).value(), master, 1e-9);
  EXPECT_NEAR(energy.declared, 4.0 * period, 1e-9);
  EXPECT_NEAR(energy.joules().value(), slave + master + 4.0 * period, 1e-9);
}

/// Over all exchanges, nodes compute as long as their tasks take, once in a step.
TEST(StepEnergy, CountsEachTaskOnceInAStep) {
  const std::vector<Stage> trunk{pooled_stage("conv1", 3, 32, 50), pooled_stage("conv2", 50, 16, 90)};
  for (const Exchange exchange : {Exchange::star, Exchange::ring, Exchange::thesis}) {
    for (const int micro_batches : {1, 4}) {
      for (const bool by_samples : {false, true}) {
        if (exchange == Exchange::thesis && (micro_batches > 1 || by_samples)) continue;
        Plan plan = proportional_plan(trunk, 16, {"a", "b", "c"}, {3, 2, 1});
        set_exchange(plan, exchange);
        set_micro_batches(plan, micro_batches);
        ASSERT_TRUE(!by_samples || cut_by_samples(plan, trunk, trunk.size(), {2, 1, 1}));
        ClusterModel cluster;
        cluster.links.assign(4, {2e6, 2e6});
        cluster.byte_costs.resize(4);
        cluster.compute = [](const Task& task) { return 0.001 * (1 + static_cast<int>(task.kind) % 5); };
        const Simulated step = simulate(make_task_graph(plan, trunk), plan, trunk, cluster);
        for (const NodeUse& use : step.nodes) {
          EXPECT_NEAR(use.busy, use.compute, 1e-6) << describe(plan);
          EXPECT_GT(use.moving, 0.0);
          EXPECT_LE(use.busy + use.moving, step.seconds * (1 + 1e-6)) << describe(plan);
        }
      }
    }
  }
}

/// Four machines, of which the first two work.
Simulated step_of_four() {
  return {.seconds = 10.0,
          .nodes = {{.compute = 6, .bytes_out = 1, .bytes_in = 1, .busy = 6, .moving = 3},
                    {.compute = 1, .bytes_out = 1, .bytes_in = 1, .busy = 1, .moving = 0},
                    {},
                    {.bytes_out = 1, .bytes_in = 1, .moving = 4}}};
}

TEST(StepEnergy, UnknownPowerIsNeitherNothingNorAGuess) {
  const std::vector<MemberProfile> members{with_power("a", kSlavePower), with_power("b", {}), with_power("c", {})};
  const StepEnergy energy = energy_of(step_of_four(), members, {.head = {}, .power = kMasterPower}, {});
  EXPECT_FALSE(energy.joules());
  EXPECT_FALSE(energy.nodes[1]);
  EXPECT_EQ(energy.unknown, (std::vector<std::string>{"b", "c"}));
  EXPECT_NEAR(energy.known, 6 * 20 + 3 * 5 + 2 + 4 * 7 + 6 * 3, 1e-9);
  EXPECT_THAT(describe(energy, 10.0, 10),
              AllOf(HasSubstr("183 J a step, 18.3 J/image"), HasSubstr("without b, c, whose watts are not known")));
  const StepEnergy assumed =
      energy_of(step_of_four(), members, {.head = {}, .power = kMasterPower}, {.assumed_watts = 4});
  EXPECT_NEAR(assumed.assumed, 2 * 4 * 10, 1e-9);
  EXPECT_NEAR(assumed.joules().value(), 183 + 80, 1e-9);
  EXPECT_THAT(describe(assumed, 10.0, 10), AllOf(HasSubstr("80 J assumed"), Not(HasSubstr("not known"))));
  const StepEnergy none = energy_of(step_of_four(), {with_power("a", {}), with_power("b", {}), with_power("c", {})}, {},
                                    {.switch_watts = 4});
  EXPECT_EQ(describe(none, 10.0, 10), "") << "the joules of a switch alone say nothing about a plan";
}

TEST(StepEnergy, MachinesWithoutWorkIdleUnlessTheyAreOff) {
  const std::vector<MemberProfile> members(3, with_power("m", kSlavePower));
  const MasterProfile master{.head = {}, .power = kMasterPower};
  const StepEnergy on = energy_of(step_of_four(), members, master, {});
  const StepEnergy off = energy_of(step_of_four(), members, master, {.idle_off = true});
  EXPECT_NEAR(on.nodes[2].value(), 2.0 * 10, 1e-9);
  EXPECT_EQ(off.nodes[2].value(), 0.0);
  EXPECT_NEAR(on.joules().value() - off.joules().value(), 20, 1e-9);
  EXPECT_EQ(off.machines, 3);
  EXPECT_NEAR(energy_alone(10.0, members, master, {}).joules().value(), 30.0 * 10 + 3 * 2 * 10, 1e-9);
  EXPECT_NEAR(energy_alone(10.0, members, master, {.idle_off = true}).joules().value(), 30.0 * 10, 1e-9);
}

TEST(StepEnergy, TheMasterAsAMemberIsCountedOnce) {
  Simulated step = step_of_four();
  step.nodes.pop_back();
  const std::vector<MemberProfile> members{with_power("a", kSlavePower), with_power("b", kSlavePower),
                                           with_power(kMasterName, kMasterPower)};
  const StepEnergy energy = energy_of(step, members, {}, {.idle_off = true});
  EXPECT_EQ(energy.machines, 3) << "the master is on, whatever its work";
  EXPECT_NEAR(energy.nodes[2].value(), 30, 1e-9);
  EXPECT_EQ(energy_alone(1.0, members, {}, {}).nodes.size(), 3U);
}

// ---- the objective --------------------------------------------------------------------------------------------------

/// A machine that computes at a speed in GFLOP/s, behind a very fast link.
MemberProfile machine_of(const std::string& name, double gflops, const Power& power, const std::vector<Stage>& trunk) {
  MemberProfile member{.name = name, .link = {1e10, 1e10}, .power = power};
  for (const Stage& stage : trunk) {
    member.stages.push_back({timing_at(gflops, 8e9, stage, stage.conv.filters, kImages, !member.stages.empty())});
  }
  return member;
}

class Objectives : public testing::Test {
 protected:
  Choice choose(Objective objective, const EnergyTerms& terms = {}) const {
    return choose_plan(trunk_, kImages, members_, {.objective = objective, .terms = terms}, master_);
  }
  static std::vector<std::string> working(const Plan& plan) {
    std::vector<std::string> names;
    for (std::size_t m = 0; m < plan.members.size(); ++m) {
      if (has_tiles(plan, static_cast<int>(m))) names.push_back(plan.members[m]);
    }
    return names;
  }

  std::vector<Stage> trunk_{pooled_stage("conv1", 3, 32, 64), pooled_stage("conv2", 64, 16, 128)};
  /// The faster a machine is, the more joules it takes for the same work: 5, 0.8 and 0.2 J for each GFLOP.
  std::vector<MemberProfile> members_{machine_of("fast", 100, {.idle = 0, .compute = 500, .transfer = 0}, trunk_),
                                      machine_of("fair", 50, {.idle = 0, .compute = 40, .transfer = 0}, trunk_),
                                      machine_of("slow", 10, {.idle = 0, .compute = 2, .transfer = 0}, trunk_)};
  MasterProfile master_{.head = {}, .power = Power{.idle = 0.01, .compute = 0.01, .transfer = 0.01}};
};

TEST_F(Objectives, HaveDifferentPlans) {
  const Choice time = choose(Objective::time);
  const Choice energy = choose(Objective::energy);
  const Choice edp = choose(Objective::edp);
  EXPECT_EQ(working(time.plan), (std::vector<std::string>{"fast", "fair", "slow"}));
  EXPECT_EQ(working(energy.plan), (std::vector<std::string>{"slow"}));
  EXPECT_EQ(working(edp.plan), (std::vector<std::string>{"fair", "slow"}));
  const auto joules = [](const Choice& choice) { return choice.energy.joules().value(); };
  EXPECT_LT(joules(energy), joules(edp));
  EXPECT_LT(joules(edp), joules(time));
  EXPECT_LT(time.predicted.seconds, edp.predicted.seconds);
  EXPECT_LT(edp.predicted.seconds, energy.predicted.seconds);
  EXPECT_LT(joules(edp) * edp.predicted.seconds, joules(energy) * energy.predicted.seconds);
  EXPECT_LT(joules(edp) * edp.predicted.seconds, joules(time) * time.predicted.seconds);
  for (const Choice* choice : {&time, &energy, &edp}) {
    EXPECT_NO_THROW(validate(choice->plan, trunk_));
    for (const Alternative& other : choice->alternatives) EXPECT_GT(other.joules.value(), 0.0);
  }
  EXPECT_TRUE(std::ranges::is_sorted(energy.alternatives, {}, [](const Alternative& each) { return *each.joules; }));
}

/// A machine without work that stays on burns its idle power for as long as the others take.
TEST_F(Objectives, CountTheIdlePowerOfMachinesLeftOut) {
  for (MemberProfile& member : members_) {
    member.power->idle = member.power->transfer = 0.95 * member.power->compute;
  }
  EXPECT_EQ(working(choose(Objective::energy).plan), (std::vector<std::string>{"fast", "fair", "slow"}))
      << "the machines burn nearly as much when they idle, so the shortest step is the best";
  EXPECT_EQ(working(choose(Objective::energy, {.idle_off = true}).plan), (std::vector<std::string>{"slow"}));
}

TEST_F(Objectives, NeedThePowerOfEachMachine) {
  members_[1].power.reset();
  for (const Objective objective : {Objective::energy, Objective::edp}) {
    EXPECT_THAT([&] { choose(objective); },
                testing::ThrowsMessage<Error>(AllOf(HasSubstr("--objective " + to_string(objective)),
                                                    HasSubstr("the watts of fair are not known"),
                                                    HasSubstr("--assume-watts"))));
    EXPECT_NO_THROW(choose(objective, {.assumed_watts = 5}));
  }
  EXPECT_NO_THROW(choose(Objective::time));
  EXPECT_FALSE(choose(Objective::time).energy.joules());
  master_.power.reset();
  EXPECT_THAT([&] { choose(Objective::energy); }, testing::ThrowsMessage<Error>(HasSubstr("of fair, master are not")));
}

TEST(ObjectiveNames, AreReadAgain) {
  for (const Objective objective : {Objective::time, Objective::energy, Objective::edp}) {
    EXPECT_EQ(objective_from(to_string(objective)), objective);
  }
  EXPECT_THAT([] { objective_from("power"); }, testing::ThrowsMessage<Error>(HasSubstr("time, energy, edp")));
}

}  // namespace
}  // namespace convoy
