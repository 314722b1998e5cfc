// Tests a run whose slaves are killed, suspended, interrupted and restarted in an order drawn from a seed. The run must
// end, with the same bits as an undisturbed run that had the same plans at the same steps.
//
// A second test kills masters at random moments. A run must go on from the files that they had written.
//
// CONVOY_CHAOS_FAULTS (default 8) is the number of faults, and CONVOY_CHAOS_SEED (default 1) the seed.

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "core/random.hpp"
#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// A plan, and the number of steps that were done when it began.
struct Segment {
  long from = 0;
  Json plan;
};

/// The plans of a run, from its events. A loss takes the run back to a snapshot, and the plans after it are dropped.
std::vector<Segment> segments_of(const std::string& events) {
  std::vector<Segment> segments;
  long done = 0;
  std::istringstream lines(events);
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (event.is_discarded()) continue;
    const std::string kind = event.at("event");
    if (kind == "start") segments.push_back({0, event.at("plan")});
    if (kind == "step") done = event.at("step");
    if (kind == "plan") segments.push_back({done, event.at("plan")});
    const std::string begin = "going on after step ";
    if (kind != "notice" || !event.at("text").get<std::string>().starts_with(begin)) continue;
    done = std::stol(event.at("text").get<std::string>().substr(begin.size()));
    Segment last = segments.back();
    while (!segments.empty() && segments.back().from >= done) segments.pop_back();
    last.from = done;
    segments.push_back(last);
  }
  return segments;
}

/// Measures the longest time for which a file that a run writes did not grow.
class Progress {
 public:
  explicit Progress(std::string file) : file_(std::move(file)), thread_([this] { follow(); }) {}
  ~Progress() { stop(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  double longest_pause() {
    stop();
    return std::chrono::duration<double>(longest_).count();
  }

 private:
  void stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void follow() {
    std::uintmax_t size = 0;
    Clock::time_point grew = Clock::now();
    while (!over_) {
      const std::uintmax_t now = std::filesystem::file_size(file_);
      if (now != size) grew = Clock::now();
      size = now;
      longest_ = std::max(longest_, Clock::now() - grew);
      std::this_thread::sleep_for(10ms);
    }
  }

  std::string file_;
  std::atomic<bool> over_{false};
  Clock::duration longest_{};
  std::thread thread_;
};

int faults() { return number_from("CONVOY_CHAOS_FAULTS", 8); }
Random random_of_the_seed() { return {static_cast<std::uint64_t>(number_from("CONVOY_CHAOS_SEED", 1)), 1}; }

/// The number of steps done at a run's last checkpoint.
long last_checkpoint(const std::string& events) {
  long steps = 0;
  std::istringstream lines(events);
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (!event.is_discarded() && event.at("event") == "checkpoint") steps = event.at("step");
  }
  return steps;
}

class Chaos : public Programs {
 protected:
  static constexpr std::array<const char*, 3> kNames{"a", "b", "c"};

  std::vector<std::string> arguments(const std::string& run, std::vector<std::string> more) const {
    more.insert(more.end(), {"--epochs", "500", "--format", "json"});
    std::vector<std::string> all = training(folder(run), std::move(more));
    std::ranges::replace(all, std::string("star"), std::string("ring"));
    return all;
  }

  /// Kills, suspends, interrupts or restarts slaves `faults` times, and then restores all of them.
  void disturb(std::array<std::optional<Process>, 3>& slaves) {
    Random random = random_of_the_seed();
    std::array<bool, 3> suspended{};
    const auto revive = [&](std::size_t i) {
      if (suspended[i]) slaves[i]->signal(SIGCONT);
      suspended[i] = false;
      if (!slaves[i]->running()) slaves[i].emplace(slave(kNames[i]));
    };
    for (int left = faults(); left > 0;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100 + random.below(900)));
      const std::size_t victim = random.below(3);
      if (suspended[victim] || !slaves[victim]->running()) {
        revive(victim);
        continue;
      }
      const std::uint32_t deed = random.below(3);
      constexpr std::array<int, 3> kSignals{SIGKILL, SIGSTOP, SIGINT};
      slaves[victim]->signal(kSignals[deed]);
      suspended[victim] = kSignals[deed] == SIGSTOP;
      --left;
    }
    for (std::size_t i = 0; i < slaves.size(); ++i) revive(i);
  }

  /// Repeats the run with the same plans at the same steps, without faults.
  void replay(const std::vector<Segment>& segments, long steps) {
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const long until = i + 1 < segments.size() ? segments[i + 1].from : steps;
      if (until == segments[i].from) continue;
      const std::string file = folder(fmt::format("plan-{}.json", i));
      std::ofstream(file) << segments[i].plan.dump();
      std::vector<std::string> more{"--steps", std::to_string(until)};
      if (segments[i].from > 0) more.emplace_back("--resume");
      std::vector<Process> slaves;
      const auto members = segments[i].plan.at("members").get<std::vector<std::string>>();
      if (members != std::vector<std::string>{"master"}) {
        for (const std::string& name : members) slaves.push_back(slave(name));
        more.insert(more.end(), {"--slaves", std::to_string(members.size()), "--plan", file});
      }
      Process part = master(arguments("replayed", more));
      ASSERT_EQ(part.wait(600s), kSuccess) << part.output();
    }
  }
};

TEST_F(Chaos, LosesNoStepAndNoBit) {
  Process train = master(arguments("run", {"--slaves", "3", "--shares", "3,2,1", "--snapshot-seconds", "0.2"}));
  std::array<std::optional<Process>, 3> slaves;
  for (std::size_t i = 0; i < slaves.size(); ++i) slaves[i].emplace(slave(kNames[i]));
  ASSERT_TRUE(train.wait_for("\"step\":5,", 60s)) << train.output();
  Progress progress(folder("run") + "/events.jsonl");
  disturb(slaves);
  std::this_thread::sleep_for(4s);  // time for the master to notice suspended slaves, and for all to return
  const double pause = progress.longest_pause();
  EXPECT_LT(pause, 20.0) << train.output();
  train.signal(SIGINT);
  ASSERT_EQ(train.wait(30s), kInterrupted) << train.output();
  for (std::optional<Process>& each : slaves) each.reset();

  const std::vector<Segment> segments = segments_of(file_bytes(folder("run") + "/events.jsonl"));
  EXPECT_GT(segments.size(), 2U) << "the faults must have changed the plan";
  const long steps = last_checkpoint(file_bytes(folder("run") + "/events.jsonl"));
  replay(segments, steps);
  EXPECT_EQ(file_bytes(folder("run") + "/weights.safetensors"), file_bytes(folder("replayed") + "/weights.safetensors"))
      << train.output();
  fmt::print("{} faults, {} steps under {} plans, never longer than {:.1f} s without one\n", faults(), steps,
             segments.size(), pause);
}

/// The central server of replicas dies with the master.
struct KilledRun {
  std::string name;
  int slaves = 0;
  std::vector<std::string> options;
};

void PrintTo(const KilledRun& run, std::ostream* out) { *out << run.name; }

class MasterKills : public Chaos, public testing::WithParamInterface<KilledRun> {
 protected:
  std::vector<std::string> with_slaves(std::vector<std::string> more) const {
    if (GetParam().slaves > 0) more.insert(more.end(), {"--slaves", std::to_string(GetParam().slaves)});
    more.insert(more.end(), GetParam().options.begin(), GetParam().options.end());
    return more;
  }
  /// The arguments that go on with the run, or begin it: the master may have been killed before it made its folder.
  std::vector<std::string> resumed(std::vector<std::string> more) const {
    more = with_slaves(std::move(more));
    if (std::filesystem::exists(folder("run") + "/config.yaml")) more.emplace_back("--resume");
    return arguments("run", more);
  }
};

TEST_P(MasterKills, LoseNothingThatWasWritten) {
  std::vector<Process> slaves;
  for (int i = 0; i < GetParam().slaves; ++i) slaves.push_back(slave(kNames[i]));
  Random random = random_of_the_seed();
  const std::string run = folder("run");
  int in_a_write = 0;
  for (int kill = 0; kill < faults(); ++kill) {
    Process train = master(resumed({"--checkpoint-seconds", "0.01"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(random.below(GetParam().slaves == 0 ? 800 : 2500)));
    ASSERT_TRUE(train.running()) << train.output();
    train.signal(SIGKILL);
    train.wait(10s);
    std::error_code absent;  // the master may have been killed before it made its folder
    for (const auto& file : std::filesystem::directory_iterator(run, absent)) {
      if (file.path().string().find("safetensors.part") != std::string::npos) ++in_a_write;
    }
  }
  const long steps = last_checkpoint(file_bytes(run + "/events.jsonl")) + 20;
  Process last = master(resumed({"--steps", std::to_string(steps)}));
  ASSERT_EQ(last.wait(100s), kSuccess) << last.output();
  Process whole = master(arguments("whole", with_slaves({"--steps", std::to_string(steps)})));
  ASSERT_EQ(whole.wait(300s), kSuccess) << whole.output();
  EXPECT_EQ(file_bytes(run + "/weights.safetensors"), file_bytes(folder("whole") + "/weights.safetensors"));
  fmt::print("{} kills, {} of them in the middle of a file; {} steps\n", faults(), in_a_write, steps);
}

INSTANTIATE_TEST_SUITE_P(Runs, MasterKills,
                         testing::Values(KilledRun{"Alone", 0, {}}, KilledRun{"Slaves", 2, {"--shares", "2,1"}},
                                         KilledRun{"Join", 0, {"--sync", "join", "--replicas", "2"}},
                                         KilledRun{"LocalSteps",
                                                   0,
                                                   {"--sync", "join", "--replicas", "2", "--sync-every", "4",
                                                    "--outer-momentum", "0.5"}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace convoy
