#include "tests/simulation/scenario.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tests/support/random_net.hpp"

namespace convoy::simulation {
namespace {

using namespace std::chrono_literals;

constexpr const char* kChain = R"(name: chain
input: {channels: 1, height: 6, width: 6}
layers:
  - {name: c1, type: conv, filters: 5, kernel: 3, pad: same}
  - {name: r1, type: relu}
  - {name: c2, type: conv, filters: 7, kernel: 3, pad: same}
  - {name: r2, type: tanh}
  - {name: p2, type: max_pool, kernel: 2}
  - {name: d1, type: dense, units: 3}
  - {name: loss, type: softmax_cross_entropy}
training: {batch: 4, epochs: 10000, learning_rate: 0.01, momentum: 0.9}
)";

constexpr const char* kBranches = R"(name: branches
input: {channels: 2, height: 6, width: 5}
layers:
  - {name: c1, type: conv, filters: 6, kernel: 3, pad: same}
  - {name: r1, type: tanh}
  - {name: c2, type: conv, filters: 6, kernel: 3, pad: same, bias: false}
  - {name: n2, type: batch_norm}
  - {name: sum, from: [n2, r1], type: add}
  - {name: r2, type: relu}
  - {name: o2, type: dropout, rate: 0.2}
  - {name: c3, type: conv, filters: 4, kernel: 3, stride: 2, pad: 1}
  - {name: r3, type: relu}
  - {name: d1, type: dense, units: 3}
  - {name: loss, type: softmax_cross_entropy}
training: {batch: 4, epochs: 10000, learning_rate: 0.01, momentum: 0.9, clip: 1.0}
)";

constexpr const char* kSingle = R"(name: single
input: {channels: 1, height: 5, width: 5}
layers:
  - {name: c1, type: conv, filters: 20, kernel: 3}
  - {name: r1, type: relu}
  - {name: d1, type: dense, units: 3}
  - {name: loss, type: softmax_cross_entropy}
training: {batch: 4, epochs: 10000, learning_rate: 0.01, momentum: 0.9}
)";

constexpr const char* kTrainingOfRandomNets =
    "training: {batch: 4, epochs: 10000, learning_rate: 0.01, momentum: 0.9, clip: 1.0}\n";

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed, 3) {}

  Scenario scenario(std::uint64_t seed) {
    Scenario scenario{.seed = seed};
    scenario.net = std::array{kChain, kChain, kBranches, kSingle}.at(below(4));
    const auto slaves = static_cast<int>(1 + below(4));
    for (int i = 0; i < slaves; ++i) {
      scenario.slaves.push_back(
          {.name = std::string(1, static_cast<char>('a' + i)), .pace = pace(), .cache = chance(4)});
    }
    if (slaves > 1 && chance(4)) scenario.slaves.back().hostile = true;
    scenario.measured = chance(40);
    draw_options(scenario);
    scenario.snapshot_seconds = std::array{0.0, 1e-9, 0.4, 2.0, 1e9}.at(below(5));
    scenario.checkpoint_seconds = std::array{1e9, 1.0, 3.0}.at(below(3));
    scenario.master_pace = {.call = between(1ms, 10ms)};
    // Where messages take longer than passes, those of different connections come in any order.
    scenario.longest_delay = std::array<Time, 4>{1ms, 3ms, 30ms, 80ms}.at(below(4));
    scenario.over = between(3s, 15s);
    draw_events(scenario);
    // A member that keeps to itself what others wait for, or a message that is lost without anybody's notice.
    scenario.long_waits =
        scenario.slaves.back().hostile || std::ranges::count(scenario.events, Fault::cut_data, &Event::fault) > 0;
    scenario.options.keep_images = chance(2);
    if (chance(3)) scenario.net = random_net(seed) + kTrainingOfRandomNets;
    return scenario;
  }

 private:
  std::uint32_t below(std::uint32_t bound) { return random_.below(bound); }
  bool chance(std::uint32_t one_in) { return below(one_in) == 0; }
  Time between(Time least, Time most) {
    return least + std::chrono::duration_cast<Time>((most - least) * static_cast<double>(random_.uniform()));
  }
  Pace pace() { return {.call = between(2ms, 20ms), .filter = between(0ms, 2ms)}; }

  void draw_options(Scenario& scenario) {
    ClusterOptions& options = scenario.options;
    const auto slaves = static_cast<int>(scenario.slaves.size());
    options.slaves = slaves;
    options.least_slaves = chance(4) ? static_cast<int>(below(static_cast<std::uint32_t>(slaves)) + 1) : 0;
    options.listen = "tcp://10.0.0.1:5570";
    options.insecure = true;
    options.share = chance(4);
    if (options.share) options.memory = "1GiB";
    options.exchange = std::array{"star", "ring", "ring", "ring", "star"}.at(below(5));
    if (!scenario.measured) {
      for (int i = 0; i < slaves + (options.share ? 1 : 0); ++i) {
        options.shares += fmt::format("{}{}", i > 0 ? "," : "", 1 + below(4));
      }
    }
    options.micro_batch = static_cast<int>(std::array{0U, 1U, 2U, 4U}.at(below(4)));
    options.wire = std::array{"", "", "bf16", "fp16", "int8"}.at(below(5));
    if (slaves == 1 || !chance(3)) return;
    options.layout = "samples";
    if (options.micro_batch < 4) options.micro_batch = 0;  // each of two members must get samples
  }

  void draw_events(Scenario& scenario) {
    for (auto left = below(7); left > 0; --left) {
      constexpr std::array kFaults{
          Fault::kill,        Fault::kill,        Fault::kill,        Fault::vanish,         Fault::leave,
          Fault::leave,       Fault::suspend,     Fault::suspend,     Fault::slow,           Fault::jump,
          Fault::part,        Fault::part,        Fault::part_slaves, Fault::part_slaves,    Fault::cut_control,
          Fault::cut_data,    Fault::cut_peer,    Fault::cut_peer,    Fault::cache,          Fault::kill_master,
          Fault::kill_master, Fault::slow_master, Fault::jump_master, Fault::suspend_master, Fault::disk};
      const auto count = static_cast<std::uint32_t>(scenario.slaves.size());
      // The worst moment is often that of another fault, before all have taken note of it.
      const bool follows = !scenario.events.empty() && chance(3);
      const Time at = follows ? scenario.events.back().at + between(0ms, 300ms) : between(0s, scenario.over);
      Event event{.at = std::min(at, scenario.over), .fault = kFaults.at(below(kFaults.size()))};
      if (event.fault == Fault::cut_data && !chance(4)) event.fault = Fault::cut_control;
      event.slave = static_cast<int>(below(count));
      event.other =
          static_cast<int>((static_cast<std::uint32_t>(event.slave) + 1 + below(std::max(1U, count - 1))) % count);
      // Short and long ones: most limits are seconds.
      event.time = chance(2) ? between(10ms, 1500ms) : between(1s, 9s);
      event.factor = static_cast<double>(2U << below(5));
      event.sends = chance(2) ? 0 : static_cast<int>(below(30));
      event.damage = static_cast<int>(below(6));
      scenario.events.push_back(event);
      if (event.fault != Fault::cache) continue;
      // A slave's program reads states from its disk where it has not begun the run that begins again.
      scenario.slaves[event.slave].cache = true;
      for (const Fault fault : {Fault::kill_master, Fault::kill}) {
        event.fault = fault;
        event.at = std::min(event.at + between(0ms, 300ms), scenario.over);
        scenario.events.push_back(event);
      }
    }
    std::ranges::sort(scenario.events, {}, &Event::at);
  }

  Random random_;
};

double seconds(Time time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Scenario scenario_of(std::uint64_t seed) { return Draw(seed).scenario(seed); }

std::string describe(const Scenario& scenario) {
  constexpr std::array kNames{"kill",        "vanish",      "leave",       "suspend",        "slow",     "jump",
                              "part",        "part slaves", "cut control", "cut data",       "cut peer", "cache",
                              "kill master", "slow master", "jump master", "suspend master", "disk"};
  const ClusterOptions& options = scenario.options;
  std::string text = fmt::format(
      "seed {}: {}; {} slaves{}, at least {}, shares '{}', exchange '{}', layout '{}', images in a micro-batch {}, "
      "wire '{}'; "
      "snapshots "
      "every {} s, checkpoints every {} s, messages take up to {:.3f} s\n",
      scenario.seed, scenario.net.substr(0, scenario.net.find('\n')), options.slaves,
      options.share ? " and the master" : "", options.least_slaves, options.shares, options.exchange, options.layout,
      options.micro_batch, options.wire, scenario.snapshot_seconds, scenario.checkpoint_seconds,
      seconds(scenario.longest_delay));
  for (const SlaveSetting& slave : scenario.slaves) {
    if (slave.hostile) text += fmt::format("  slave {} is hostile\n", slave.name);
  }
  for (const Event& event : scenario.events) {
    text += fmt::format("  {:.3f} s: {}, slave {}, other {}, {:.3f} s, factor {}, after {} sends, damage {}\n",
                        seconds(event.at), kNames.at(static_cast<std::size_t>(event.fault)), event.slave, event.other,
                        seconds(event.time), event.factor, event.sends, event.damage);
  }
  return text;
}

}  // namespace convoy::simulation
