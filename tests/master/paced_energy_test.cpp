// Runs slaves on paced devices whose meters are made up from what the devices do, and compares the joules with the
// plan's.

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "devices/paced_device.hpp"
#include "energy/meters.hpp"
#include "master/cluster/cluster_trunk.hpp"
#include "master/cluster/head_place.hpp"
#include "master/cluster/learned_power.hpp"
#include "master/cluster/master_times.hpp"
#include "master/cluster/planning.hpp"
#include "tests/energy/fake_machine.hpp"
#include "tests/support/slave_thread.hpp"
#include "tests/support/source_folder.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;

constexpr int kEnergyBatch = 8;

/// The meter of a machine with a paced device: RAPL counters, which a thread keeps up to date, of the joules that the
/// machine would have taken for the seconds in which its device was asked to compute, and for the seconds in which it
/// was not.
class PacedMachine {
 public:
  explicit PacedMachine(const Power& power) : power_(power), began_(Clock::now()) {
    show();
    writer_ = std::thread([this] {
      while (!ending_) {
        show();
        std::this_thread::sleep_for(5ms);
      }
    });
    for (energy::MeterRow& row : energy::list_meters(machine_, {})) {
      if (row.info.name == "rapl") sampler_.emplace(std::move(row));
    }
  }
  ~PacedMachine() {
    sampler_.reset();
    ending_ = true;
    writer_.join();
  }
  PacedMachine(const PacedMachine&) = delete;
  PacedMachine& operator=(const PacedMachine&) = delete;

  energy::Sampler* sampler() { return &sampler_.value(); }
  /// Lets the seconds of a computation pass. While a device is timed, time does not pass.
  Spend spend() {
    return [this](double seconds) {
      if (!Clock::is_real()) return Clock::sleep_for(Clock::seconds(seconds));
      {
        const std::lock_guard lock(mutex_);
        computes_since_ = Clock::now();
      }
      pacer_.spend(seconds);
      const std::lock_guard lock(mutex_);
      computed_ += seconds_since(*computes_since_);
      computes_since_.reset();
    };
  }

 private:
  static double seconds_since(Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  }
  void show() {
    double joules = 0.0;
    {
      const std::lock_guard lock(mutex_);
      const double computed = computed_ + (computes_since_ ? seconds_since(*computes_since_) : 0.0);
      joules = power_.idle * seconds_since(began_) + (power_.compute - power_.idle) * computed;
    }
    for (const char* zone : {"0", "1"}) {
      machine_.rewrite(fmt::format("/sys/class/powercap/intel-rapl:{}/energy_uj", zone),
                       fmt::format("{:.0f}", 5e6 + 0.5e6 * joules));
    }
  }

  Power power_;
  energy::FakeMachine machine_{"rapl"};
  Clock::time_point began_;
  Pacer pacer_;
  std::mutex mutex_;
  double computed_ = 0.0;                            ///< seconds, guarded by mutex_
  std::optional<Clock::time_point> computes_since_;  ///< guarded by mutex_; nothing while the device does not compute
  std::atomic<bool> ending_ = false;
  std::thread writer_;
  std::optional<energy::Sampler> sampler_;
};

/// On a busy machine waiting takes longer than predicted, which costs idle power alone, so that a tenth of the power of
/// computing is the idle power. bench/energy.py compares on links of a LAN.
TEST(PacedEnergy, IsWhatThePlanPredicts) {
  const Net net = read_net(source_folder() + "/nets/glyphs.yaml", {"training.batch=8"});
  const Cut cut = convoy::cut(net);
  const Power fast{.idle = 2, .compute = 20, .transfer = 2};
  const Power slow{.idle = 0.5, .compute = 5, .transfer = 0.5};
  PacedMachine a_machine(fast);
  PacedMachine b_machine(slow);
  PacedDevice own("1");  // GFLOP/s; it computes the heads alone
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  lobby.guests().expect_paced(true);
  SlaveThread a(lobby.endpoint(), "a", std::make_unique<PacedDevice>("0.8", a_machine.spend()), a_machine.sampler());
  SlaveThread b(lobby.endpoint(), "b", std::make_unique<PacedDevice>("0.4", b_machine.spend()), b_machine.sampler());
  std::this_thread::sleep_for(1500ms);  // until their idle power is known
  const std::atomic<bool> stop{false};
  ASSERT_TRUE(crew.gather(2, stop, [] {}));

  ClusterOptions options;
  options.slaves = 2;
  options.layout = "samples";
  options.exchange = "ring";
  Planned planned =
      plan_members({options, cut, kEnergyBatch, own, {1, pace_of_heads(cut, kEnergyBatch, own)}}, crew, {});
  Calibration& calibration = planned.calibration;
  ASSERT_EQ(calibration.members.size(), 2U);
  calibration.members[0].power = fast;
  calibration.members[1].power = slow;
  const StepEnergy predicted = energy_of(planned.choice->predicted, calibration.members, calibration.master, {});

  ClusterTrunk trunk(cut.trunk, planned.plan, crew, nullptr, 60s);
  EnergyBook book;
  trunk.tell_energy_to(book);
  NetLearner learner(trunk, cut, kEnergyBatch, {1, pace_of_heads(cut, kEnergyBatch, own)});
  learner.load({std::make_shared<const ModelState>(ModelState{initial_trunk(cut, 1), initial_heads(cut, 1)})});
  const Images images = noise_images(input_shape(cut.trunk[0], kEnergyBatch), 1, 1);
  const std::vector<int> labels(kEnergyBatch, 3);
  const Clock::time_point begin = Clock::now();
  const auto measured = [&] {
    const std::vector<MemberEnergy> told = book.members();
    return told.size() == 2 && told[0].energy.measured() && told[1].energy.measured() && told[0].energy.seconds > 3.0;
  };
  int step = 0;
  // A meter on a busy machine needs longer until it has enough values.
  while (!measured() && Clock::now() < begin + 60s) {
    train_step(learner, images, labels, {.training = true, .seed = 1, .step = ++step},
               [](double) { return UpdateStep{}; });
  }
  learner.settle();
  const double period = std::chrono::duration<double>(Clock::now() - begin).count() / step;
  crew.dismiss("the test finished");
  a.end();
  b.end();
  ASSERT_TRUE(measured()) << book.members().at(0).energy.refusal;

  double joules = 0.0;
  double expected = 0.0;
  for (std::size_t m = 0; m < 2; ++m) {
    const MachineEnergy energy = book.members()[m].energy;
    joules += energy.joules() / energy.seconds * period;
    expected += predicted.nodes[m].value();
  }
  RecordProperty("predicted_joules_per_image", fmt::format("{:.4f}", expected / kEnergyBatch));
  RecordProperty("measured_joules_per_image", fmt::format("{:.4f}", joules / kEnergyBatch));
  EXPECT_NEAR(joules, expected, 0.15 * expected)
      << step << " steps of " << period << " s, predicted " << planned.choice->predicted.seconds << " s";

  // A later plan learns the power from this run.
  learn_power(calibration, book.members());
  const StepEnergy again = energy_of(planned.choice->predicted, calibration.members, calibration.master, {});
  EXPECT_NEAR(again.nodes[0].value() + again.nodes[1].value(), joules, 0.25 * joules);
  for (std::size_t m = 0; m < 2; ++m) {
    const Power& known = m == 0 ? fast : slow;
    if (!calibration.members[m].power) continue;  // it hardly waited, and was not idle for long enough
    const Power& learned = *calibration.members[m].power;
    EXPECT_NEAR(learned.compute, known.compute, 0.2 * known.compute);
    // On a busy machine there may be too few readings before the run.
    const bool idled = book.members()[m].energy.idle_watts > 0.0;
    EXPECT_TRUE(!idled || std::abs(learned.idle - known.idle) < 0.2 * known.idle) << learned.idle;
  }
}

}  // namespace
}  // namespace convoy
