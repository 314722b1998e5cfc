// A run whose slaves are killed, suspended, interrupted and started again as a seed has it. It must come to its end, and to
// the bits of a run that nothing disturbed and that had the same plans at the same steps.
//
// CONVOY_CHAOS_SECONDS (default 8) says for how long, CONVOY_CHAOS_SEED (default 1) in which order.

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
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

/// A plan, and the steps done when it began.
struct Segment {
  long from = 0;
  Json plan;
};

/// The plans of a run by its events. A loss takes a run back: what was planned behind that is void.
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

class Chaos : public Programs {
 protected:
  static constexpr std::array<const char*, 3> kNames{"a", "b", "c"};

  std::vector<std::string> arguments(const std::string& run, std::vector<std::string> more) const {
    std::vector<std::string> all = training(folder(run), {"--epochs", "500", "--format", "json"});
    std::ranges::replace(all, std::string("star"), std::string("ring"));
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  /// Kills, suspends, interrupts and restarts until the time is over; then all are well again.
  void disturb(std::array<std::optional<Process>, 3>& slaves) {
    Random random(static_cast<std::uint64_t>(number_from("CONVOY_CHAOS_SEED", 1)), 1);
    const auto until = Clock::now() + std::chrono::seconds(number_from("CONVOY_CHAOS_SECONDS", 8));
    std::array<bool, 3> suspended{};
    const auto revive = [&](std::size_t i) {
      if (suspended[i]) slaves[i]->signal(SIGCONT);
      suspended[i] = false;
      if (!slaves[i]->running()) slaves[i].emplace(slave(kNames[i]));
    };
    while (Clock::now() < until) {
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
    }
    for (std::size_t i = 0; i < slaves.size(); ++i) revive(i);
  }

  /// The run with those plans at those steps, and nothing that fails.
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
      ASSERT_EQ(part.wait(100s), kSuccess) << part.output();
    }
  }
};

TEST_F(Chaos, LosesNoStepAndNoBit) {
  Process train = master(arguments("run", {"--slaves", "3", "--shares", "3,2,1", "--snapshot-seconds", "0.2"}));
  std::array<std::optional<Process>, 3> slaves;
  for (std::size_t i = 0; i < slaves.size(); ++i) slaves[i].emplace(slave(kNames[i]));
  ASSERT_TRUE(train.wait_for("\"step\":5,", 60s)) << train.output();
  disturb(slaves);
  std::this_thread::sleep_for(4s);  // whoever is suspended is noticed, and all are back
  train.signal(SIGINT);
  ASSERT_EQ(train.wait(30s), kInterrupted) << train.output();
  for (std::optional<Process>& each : slaves) each.reset();

  const std::vector<Segment> segments = segments_of(file_bytes(folder("run") + "/events.jsonl"));
  EXPECT_GT(segments.size(), 2U) << "nothing was disturbed";
  long steps = 0;
  std::istringstream lines(file_bytes(folder("run") + "/events.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line);
    if (event.at("event") == "checkpoint") steps = event.at("step");
  }
  replay(segments, steps);
  EXPECT_EQ(file_bytes(folder("run") + "/weights.safetensors"), file_bytes(folder("replayed") + "/weights.safetensors"))
      << train.output();
  fmt::print("{} steps under {} plans\n", steps, segments.size());
}

}  // namespace
}  // namespace convoy
