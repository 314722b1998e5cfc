// Tests the simulation of data-parallel training: closed forms of simple cases, and the bounds of the formulas.
#include "plan/replica_simulation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace convoy::estimate {
namespace {

/// Seconds of a gradient, and of a transfer of all weights.
struct Times {
  double gradient;
  double transfer;
};
/// VGG16E, GoogLeNet, SqueezeNet and ResNet-34 on the machines of Slampa (2017).
constexpr std::array kNets{Times{0.719, 5.153}, Times{0.763, 0.210}, Times{0.758, 0.033}, Times{0.821, 0.811}};

Workers equal(int count, const Times& times) {
  const NodeLink link{1.0 / times.transfer, 1.0 / times.transfer};
  const auto workers = static_cast<std::size_t>(count);
  return {.gradient = std::vector<double>(workers, times.gradient),
          .links = std::vector<NodeLink>(workers, link),
          .server = link,
          .tensors = {}};
}

Bounds formula(Scheme scheme, Server server, const Times& times, int workers, int batches) {
  return seconds_by_formula({scheme, server, times.gradient, times.transfer, workers, batches});
}

TEST(ReplicaSimulation, WithoutJitterIsTheWorstCaseOfTheFormulas) {
  for (const Times& times : kNets) {
    for (const int workers : {1, 2, 4, 8}) {
      for (const Scheme scheme : kSchemes) {
        for (const Server server : kServers) {
          const double seconds = simulate(equal(workers, times), {scheme, server, 128}).seconds;
          const double expected = formula(scheme, server, times, workers, 128).worst;
          EXPECT_NEAR(seconds, expected, 1e-9 * expected)
              << to_string(scheme) << " " << to_string(server) << " " << workers << " workers";
        }
      }
    }
  }
}

TEST(ReplicaSimulation, WithoutJitterTheSemaphoreIsTheBestCaseOfTheFormulas) {
  for (const Times& times : kNets) {
    for (const int workers : {1, 2, 4, 8}) {
      for (const Scheme scheme : kSchemes) {
        for (const Server server : kServers) {
          const double seconds = simulate(equal(workers, times), {scheme, server, 128, true}).seconds;
          const double expected = formula(scheme, server, times, workers, 128).best;
          EXPECT_NEAR(seconds, expected, 1e-9 * expected)
              << to_string(scheme) << " " << to_string(server) << " " << workers << " workers";
        }
      }
    }
  }
}

TEST(ReplicaSimulation, WithJitterAsynchronousTrainingLiesBetweenTheFormulas) {
  for (const Times& times : {kNets[1], kNets[2], kNets[3]}) {
    for (const int workers : {2, 4, 8}) {
      const Bounds bounds = formula(Scheme::async, Server::central, times, workers, 128);
      for (const bool semaphore : {false, true}) {
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
          const ReplicaRun run{Scheme::async, Server::central, 128, semaphore, 0.05, seed};
          const double seconds = simulate(equal(workers, times), run).seconds;
          EXPECT_GT(seconds, 0.99 * bounds.best) << workers;
          EXPECT_LT(seconds, 1.01 * bounds.worst) << workers;
        }
      }
    }
  }
}

TEST(ReplicaSimulation, WithJitterWorkersComeApartWhereTheLinkIsFree) {
  const Bounds bounds = formula(Scheme::async, Server::central, kNets[2], 8, 128);
  const ReplicaRun run{Scheme::async, Server::central, 128, false, 0.05};
  EXPECT_LT(simulate(equal(8, kNets[2]), run).seconds, bounds.mean());
}

TEST(ReplicaSimulation, JitterMakesASynchronousIterationWaitForTheSlowest) {
  const Workers workers = equal(8, {1.0, 0.01});
  const double alone = simulate(workers, {Scheme::join, Server::distributed, 8000}).seconds;
  const double seconds = simulate(workers, {Scheme::join, Server::distributed, 8000, false, 0.1, 3}).seconds;
  // The largest of eight normal numbers is 1.42 deviations above their mean.
  EXPECT_NEAR((seconds - alone) / 1000, 0.1424, 0.02);
  // One worker waits for nobody, and the mean of its times does not depend on the jitter.
  EXPECT_NEAR(simulate(equal(1, {1.0, 0.0001}), {Scheme::join, Server::central, 5000, false, 0.3, 3}).seconds, 5001,
              100);
}

TEST(ReplicaSimulation, IsAFunctionOfItsSeed) {
  const ReplicaRun run{Scheme::async, Server::distributed, 64, false, 0.1, 7};
  const Workers workers = equal(4, kNets[1]);
  EXPECT_EQ(simulate(workers, run).seconds, simulate(workers, run).seconds);
  ReplicaRun other = run;
  other.seed = 8;
  EXPECT_NE(simulate(workers, run).seconds, simulate(workers, other).seconds);
}

TEST(ReplicaSimulation, SpreadsEachTensorToTheServerWithTheLeastBytes) {
  EXPECT_EQ(spread({}, 4), std::vector<double>(4, 0.25));
  // 5 to the first, 3 to the second, 1 to the third, 2 to the third, 4 to the second or third: to the second.
  EXPECT_EQ(spread({5, 3, 1, 2, 4}, 3), (std::vector<double>{5.0 / 15, 7.0 / 15, 3.0 / 15}));
  EXPECT_EQ(spread({1}, 2), (std::vector<double>{1, 0}));
}

TEST(ReplicaSimulation, ALargeTensorMakesItsServerTheBottleneck) {
  constexpr Times kTimes{1.0, 0.3};
  Workers workers = equal(4, kTimes);
  // One worker holds all weights, and its card sends three copies and receives three gradients.
  workers.tensors = {7.0};
  for (const bool semaphore : {false, true}) {
    const double seconds = simulate(workers, {Scheme::split, Server::distributed, 10, semaphore}).seconds;
    const double expected = semaphore ? 10 * (4 * kTimes.transfer + 0.25) : 10 * (6 * kTimes.transfer + 0.25);
    EXPECT_NEAR(seconds, expected, 1e-9) << semaphore;
  }
  // The largest part, 3/7 of the weights, is sent to three others and received from them.
  workers.tensors = {3.0, 2.0, 1.0, 1.0};
  EXPECT_NEAR(simulate(workers, {Scheme::join, Server::distributed, 40}).seconds,
              10 * (1.0 + 6 * kTimes.transfer * 3 / 7), 1e-9);
}

TEST(ReplicaSimulation, CountsLatencyAndTheServersWork) {
  Workers workers = equal(4, {1.0, 0.1});
  workers.latency = 0.01;
  EXPECT_NEAR(simulate(workers, {Scheme::join, Server::central, 40}).seconds, 10 * (8 * 0.1 + 1.0 + 2 * 0.01), 1e-9);
  workers.apply = 0.05;
  // All gradients arrive together, and the server applies one after the other.
  EXPECT_NEAR(simulate(workers, {Scheme::join, Server::central, 40}).seconds,
              10 * (8 * 0.1 + 1.0 + 2 * 0.01 + 4 * 0.05), 1e-9);
  // Each of four servers applies a quarter of four gradients: first its own, then those that arrive together.
  EXPECT_NEAR(simulate(workers, {Scheme::join, Server::distributed, 40}).seconds,
              10 * (2 * 0.075 + 1.0 + 2 * 0.01 + 3 * 0.0125), 1e-9);
}

TEST(ReplicaSimulation, UnequalWorkersWaitOnlyWhereTheyMust) {
  Workers workers = equal(3, {1.0, 1e-6});
  workers.gradient = {1.0, 2.0, 4.0};
  EXPECT_NEAR(simulate(workers, {Scheme::join, Server::central, 300}).seconds, 400, 0.1);
  // 1.75 batches a second.
  EXPECT_NEAR(simulate(workers, {Scheme::async, Server::central, 350}).seconds, 200, 4.1);
  // A slow link holds up its own worker alone.
  Workers linked = equal(2, {1.0, 1e-6});
  linked.links[1] = {1.0, 0.5};
  EXPECT_NEAR(simulate(linked, {Scheme::join, Server::central, 20}).seconds, 10 * (2 + 1 + 1), 0.1);
  EXPECT_NEAR(simulate(linked, {Scheme::async, Server::central, 50}).seconds, 40, 4.1);
}

TEST(ReplicaSimulation, GivesTheFormulasOneWorkerForUnequalOnes) {
  Workers workers = equal(3, {1.0, 0.1});
  workers.gradient = {1.0, 2.0, 4.0};
  workers.links[1] = {5.0, 10.0};
  workers.bytes = 2.0;
  const Setting join = setting_of(workers, {Scheme::join, Server::central, 30});
  EXPECT_EQ(join.gradient, 4.0);
  EXPECT_EQ(join.transfer, 0.4);
  EXPECT_EQ(join.workers, 3);
  EXPECT_EQ(join.batches, 30);
  // 1.75 batches a second are those of three workers that take 3 / 1.75 s.
  EXPECT_DOUBLE_EQ(setting_of(workers, {Scheme::async, Server::central, 30}).gradient, 3 / 1.75);
  workers.server.in = 1.0;
  EXPECT_EQ(setting_of(workers, {Scheme::join, Server::central, 30}).transfer, 2.0);
  EXPECT_EQ(setting_of(workers, {Scheme::join, Server::distributed, 30}).transfer, 0.4);
  EXPECT_EQ(seconds_alone(workers, 30), 30.0);
}

TEST(ReplicaSimulation, BackupWorkersSpareAnIterationItsSlowest) {
  for (const Server server : kServers) {
    Workers workers = equal(4, {1.0, 1e-7});
    workers.gradient[2] = 3.4;
    const auto seconds = [&](int backup, int batches) {
      return simulate(workers, {.scheme = Scheme::join, .server = server, .batches = batches, .backup = backup})
          .seconds;
    };
    EXPECT_NEAR(seconds(0, 40), 34, 1e-3) << to_string(server);
    // The three others end an iteration of three batches in a second.
    EXPECT_NEAR(seconds(1, 30), 10, 1e-3) << to_string(server);
    // With two backups, the slow one is never among the first two.
    EXPECT_NEAR(seconds(2, 30), 15, 1e-3) << to_string(server);
  }
}

TEST(ReplicaSimulation, ABackupWorkersGradientIsDroppedAndItGoesOnWithTheNewestWeights) {
  // A transfer takes a second, and the first worker two for a gradient, the second 9.
  Workers workers = equal(2, {2.0, 1.0});
  workers.gradient[1] = 9.0;
  workers.links[1] = workers.server = {1e9, 1e9};
  const ReplicaRun run{.scheme = Scheme::join, .server = Server::central, .batches = 4, .semaphore = true, .backup = 1};
  // Each iteration takes 1 + 2 + 1; the late gradient arrives after 9 s, and is too late again after 18.
  EXPECT_NEAR(simulate(workers, run).seconds, 16, 1e-6);
}

TEST(ReplicaSimulation, LocalStepsSaveTransfers) {
  constexpr Times kTimes{1.0, 0.3};
  for (const bool semaphore : {false, true}) {
    for (const Server server : kServers) {
      const ReplicaRun run{
          .scheme = Scheme::join, .server = server, .batches = 400, .semaphore = semaphore, .local_steps = 10};
      const double seconds = simulate(equal(4, kTimes), run).seconds;
      const double exchange = server == Server::distributed ? 2 * 0.3 * 3 / 4 : (semaphore ? 5 : 8) * 0.3;
      EXPECT_NEAR(seconds, 10 * (10 * 1.0 + exchange), 1e-9);
      const Bounds bounds = seconds_by_formula(setting_of(equal(4, kTimes), run));
      EXPECT_NEAR(seconds, semaphore ? bounds.best : bounds.worst, 1e-9);
    }
  }
  // Two workers have 10 batches in an iteration of the last 15, and then one has the last five.
  const ReplicaRun run{.scheme = Scheme::join, .server = Server::central, .batches = 15, .local_steps = 5};
  EXPECT_NEAR(simulate(equal(2, kTimes), run).seconds, (5 + 4 * 0.3) + (5 + 2 * 0.3), 1e-9);
}

TEST(ReplicaSimulation, TheLastIterationOfJoinHasTheBatchesThatAreLeft) {
  constexpr Times kTimes{1.0, 0.1};
  const double ten = simulate(equal(4, kTimes), {Scheme::join, Server::central, 10}).seconds;
  EXPECT_NEAR(ten, 2 * (8 * 0.1 + 1.0) + (4 * 0.1 + 1.0), 1e-9);
}

TEST(ReplicaSimulation, SkippedBatchesDoNotCount) {
  const Workers workers = equal(4, {1.0, 0.1});
  const auto seconds = [&](Scheme scheme, int batches, int skipped) {
    return simulate(workers, {.scheme = scheme, .batches = batches, .jitter = 0.1, .skipped = skipped}).seconds;
  };
  EXPECT_NEAR(seconds(Scheme::join, 40, 12), seconds(Scheme::join, 40, 0) - seconds(Scheme::join, 12, 0), 1e-9);
  EXPECT_NEAR(seconds(Scheme::split, 40, 12), seconds(Scheme::split, 40, 0) - seconds(Scheme::split, 12, 0), 1e-9);
  // Workers that come apart are faster after the beginning.
  EXPECT_LT(seconds(Scheme::async, 80, 40), 0.5 * seconds(Scheme::async, 80, 0));
  // Of a training that is simulated in part, more than that part may be skipped.
  const double last = seconds(Scheme::join, 8'000'000, 7'999'996);
  EXPECT_NEAR(last, seconds(Scheme::join, 8'000'000, 0) / 2'000'000, 0.05 * last);
}

TEST(ReplicaSimulation, LongTrainingsAreSimulatedInPart) {
  for (const Scheme scheme : kSchemes) {
    for (const Server server : kServers) {
      for (const bool semaphore : {false, true}) {
        const double seconds = simulate(equal(8, kNets[2]), {scheme, server, 8'000'000, semaphore}).seconds;
        const Bounds bounds = formula(scheme, server, kNets[2], 8, 8'000'000);
        const double expected = semaphore ? bounds.best : bounds.worst;
        EXPECT_NEAR(seconds, expected, 1e-6 * expected) << to_string(scheme) << " " << to_string(server);
      }
    }
  }
}

/// A worker whose gradient takes a second, of which forward 0.4 s, and whose link carries all weights in 0.1 s.
Workers directed(int count, const Director& director) {
  Workers workers = equal(count, {1.0, 0.1});
  workers.director = director;
  workers.director->forward = 0.4;
  return workers;
}

double seconds_of_iteration(const Workers& workers) {
  const int batches = 10 * static_cast<int>(workers.gradient.size());
  return simulate(workers, {Scheme::join, Server::central, batches}).seconds / 10;
}

TEST(ReplicaSimulation, ADirectorsImagesMapsAndDenseLayersTakeTime) {
  // Images take 0.05 s, maps 0.02 s each way, and the gradients of the dense layers' weights less than the worker's
  // backward pass.
  const Director director{.images = 0.5, .maps = 0.2, .head = 0.3, .head_weights = 0.5, .stages = {}};
  const double batch = 0.1 + 0.05 + 0.4 + 0.02 + 0.3 + 0.02 + 0.6 + 0.1;
  EXPECT_NEAR(seconds_of_iteration(directed(1, director)), batch, 1e-9);
  for (const Scheme scheme : {Scheme::async, Scheme::split}) {
    EXPECT_NEAR(simulate(directed(1, director), {scheme, Server::central, 10}).seconds, 10 * batch, 1e-9);
  }
  // The director cannot take the gradient while it computes those of the dense layers.
  Director slow = director;
  slow.head_weights = 1.0;
  EXPECT_NEAR(seconds_of_iteration(directed(1, slow)), batch - 0.02 - 0.6 - 0.1 + 1.0, 1e-9);
}

TEST(ReplicaSimulation, MicroBatchesArriveWhileOthersAreComputed) {
  Director director{.images = 2.0, .micro_batches = 4, .stages = {}};
  // The images of a micro-batch take 0.05 s, and computing them 0.1 s.
  EXPECT_NEAR(seconds_of_iteration(directed(1, director)), 0.1 + 0.05 + 4 * 0.1 + 0.6 + 0.1, 1e-9);
  director.images = 8.0;  // they take 0.2 s
  EXPECT_NEAR(seconds_of_iteration(directed(1, director)), 0.1 + 4 * 0.2 + 0.1 + 0.6 + 0.1, 1e-9);
}

TEST(ReplicaSimulation, TheImagesOfTheNextLocalStepArriveWhileOneIsComputed) {
  // The images of a batch take 0.2 s, and computing them 0.4 s. Only those of the first of ten batches are waited for.
  const Workers workers = directed(1, {.images = 2.0, .stages = {}});
  const ReplicaRun run{.scheme = Scheme::join, .server = Server::central, .batches = 40, .local_steps = 10};
  EXPECT_NEAR(simulate(workers, run).seconds, 4 * (0.1 + 0.2 + 10 * 1.0 + 0.1), 1e-9);
}

TEST(ReplicaSimulation, ADirectorComputesTheDenseLayersOfOneWorkerAfterTheOther) {
  Workers workers = directed(4, {.head = 0.3, .stages = {}});
  workers.bytes = 1e-6;
  EXPECT_NEAR(seconds_of_iteration(workers), 0.4 + 4 * 0.3 + 0.6, 1e-5);
  // Workers that split a batch have a quarter of it each.
  EXPECT_NEAR(simulate(workers, {Scheme::split, Server::central, 10}).seconds, 10 * (0.1 + 4 * 0.075 + 0.15), 1e-4);
}

TEST(ReplicaSimulation, ADirectorUpdatesWhenAllGradientsAreThere) {
  const Director director{.take = 0.01, .add = 0.02, .update = 0.05, .stages = {}};
  EXPECT_NEAR(seconds_of_iteration(directed(4, director)), 8 * 0.1 + 1.0 + 4 * 0.01 + 4 * 0.02 + 0.05, 1e-9);
  EXPECT_NEAR(simulate(directed(1, director), {Scheme::async, Server::central, 10}).seconds, 10 * (1.2 + 0.01 + 0.05),
              1e-9);
  // In the same time, the gradient of a backup worker that comes during the update is dropped.
  Workers late = directed(2, {.update = 0.5, .stages = {}});
  late.gradient[1] = 1.2;
  late.bytes = 1e-6;
  EXPECT_NEAR(simulate(late, {.scheme = Scheme::join, .server = Server::central, .batches = 10, .backup = 1}).seconds,
              10 * 1.5, 1e-4);
}

TEST(ReplicaSimulation, AWorkerAsksForTheWeightsPartByPart) {
  Workers workers = directed(1, {.between = 0.04, .stages = {1.0, 3.0}});
  workers.latency = 0.001;
  // Two messages come before the first part and one before the second, and the worker handles a quarter of the weights
  // in between. Two messages ask for the gradient. One each are both parts, the start, images, maps, their gradients,
  // and the gradient.
  EXPECT_NEAR(seconds_of_iteration(workers), 0.1 + 0.01 + 1.0 + 0.1 + (2 + 1 + 2 + 7) * 0.001, 1e-9);
  // The director gets the weights ready for both workers before it sends any. Both handle their parts at the same time.
  workers = directed(2, {.give = 0.002, .between = 0.04, .stages = std::vector<double>(20, 1.0)});
  EXPECT_NEAR(seconds_of_iteration(workers), 2 * 0.002 + 2 * 0.1 + 0.038 + 1.0 + 2 * 0.1, 1e-9);
}

TEST(ReplicaSimulation, GradientsOfStagesLeaveWhileOthersAreComputed) {
  // The gradient of the second stage, three quarters of the weights, is known 0.3 s before the end, and travels for
  // 0.075 s.
  Workers workers = directed(1, {.stages = {1.0, 3.0}, .known = {0.0, 0.3}});
  EXPECT_NEAR(seconds_of_iteration(workers), 0.1 + 1.0 + 0.025, 1e-9);
  EXPECT_NEAR(simulate(workers, {Scheme::async, Server::central, 10}).seconds, 10 * 1.125, 1e-9);
  // In turns it leaves when all is known.
  EXPECT_NEAR(simulate(workers, {Scheme::join, Server::central, 10, true}).seconds, 10 * 1.2, 1e-9);
  // Known 0.05 s before the end, it delays the gradient of the first stage.
  workers.director->known = {0.0, 0.05};
  EXPECT_NEAR(seconds_of_iteration(workers), 0.1 + 1.0 + 0.05, 1e-9);
  // The gradients of four workers share the server's card: 0.3 s before the end they begin to travel for 0.3 s, and
  // those of the first stage for 0.1 s.
  workers = directed(4, {.stages = {1.0, 3.0}, .known = {0.0, 0.3}});
  EXPECT_NEAR(seconds_of_iteration(workers), 0.4 + 1.0 + 0.1, 1e-9);
  // No gradient is known before those of the maps have come.
  workers = directed(1, {.stages = {1.0, 3.0}, .known = {0.0, 0.9}});
  EXPECT_NEAR(seconds_of_iteration(workers), 0.1 + 1.0 + 0.025, 1e-9);
}

TEST(ReplicaSimulation, PartsWaitInTheQueueOfABusyCard) {
  // The server sends to the first worker, whose link is slow, for as long as to the second one. Nine parts and the
  // images of the second worker wait for 0.01 s each.
  Workers workers = directed(2, {.queue = 0.1, .stages = std::vector<double>(10, 1.0)});
  workers.links[0].in = 0.5;
  workers.gradient[1] = 10.0;
  EXPECT_NEAR(simulate(workers, {Scheme::join, Server::central, 2}).seconds, 1.0 / 9.5 + 10 * 0.01 + 10.0 + 0.1, 1e-9);
  // A worker by itself finds the card idle.
  Workers one = directed(1, {.images = 2.0, .queue = 0.1, .stages = std::vector<double>(10, 1.0)});
  EXPECT_NEAR(seconds_of_iteration(one), 0.1 + 0.2 + 1.0 + 0.1, 1e-9);
}

TEST(ReplicaSimulation, ADirectorsSemaphoreLetsOneWorkerHaveAllParts) {
  const Workers workers = directed(4, {.between = 0.04, .stages = {1.0, 3.0}});
  // The first worker has the weights after 0.11 s, and the others 0.11 s after one another, as have the gradients.
  EXPECT_NEAR(simulate(workers, {Scheme::join, Server::central, 40, true}).seconds, 10 * (4 * 0.11 + 1.0 + 0.1), 1e-9);
}

TEST(ReplicaSimulation, AMachineByItselfComputesTheDenseLayers) {
  const Workers workers = directed(2, {.head = 0.3, .head_weights = 0.2, .stages = {}});
  EXPECT_DOUBLE_EQ(seconds_alone(workers, 10), 15.0);
  EXPECT_DOUBLE_EQ(setting_of(workers, {Scheme::join, Server::central, 10}).gradient, 1.5);
  EXPECT_DOUBLE_EQ(setting_of(workers, {Scheme::async, Server::central, 10}).gradient, 1.5);
}

TEST(ReplicaSimulation, CountsTheUpdatesBetweenWeightsAndGradient) {
  EXPECT_EQ(simulate(equal(1, kNets[2]), {Scheme::async, Server::central, 50}).staleness, 0.0);
  EXPECT_EQ(simulate(equal(4, kNets[2]), {Scheme::join, Server::central, 50}).staleness, 0.0);
  // Each of the first four gradients has seen as many updates as are before it, and the others three each.
  EXPECT_NEAR(simulate(equal(4, kNets[2]), {Scheme::async, Server::central, 400, true}).staleness,
              (0 + 1 + 2 + 3 + 396 * 3) / 400.0, 1e-9);
  // Four workers in step send four gradients at the same moment, and then fetch weights that have seen all four.
  EXPECT_EQ(simulate(equal(4, kNets[2]), {Scheme::async, Server::distributed, 400}).staleness, (0 + 1 + 2 + 3) / 4.0);
}

}  // namespace
}  // namespace convoy::estimate
