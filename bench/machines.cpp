#include "bench/machines.hpp"

#include <algorithm>
#include <set>

#include "cli/checks.hpp"
#include "core/files.hpp"
#include "master/cluster/described_machines.hpp"

namespace convoy {

void add_options(CLI::App& command, Machines& machines) {
  auto* gflops =
      command
          .add_option(
              "--gflops", machines.gflops,
              "speeds of the slaves in GFLOP/s, separated by commas; with fewer numbers than slaves they repeat")
          ->delimiter(',')
          ->check(positive_number())
          ->capture_default_str();
  command.add_option("--master-gflops", machines.master_gflops, "speed of the master in GFLOP/s")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--latency", machines.latency, "latency of a message in ms")
      ->check(number(0.0, 1e12))
      ->capture_default_str();
  command
      .add_option("--from-run", machines.from_run,
                  "folder of a run: the members that it timed replace the given speeds and links; with fewer members "
                  "than slaves they repeat")
      ->excludes(gflops);
}

Calibration calibration_of(const Machines& machines, const Cut& parts, int batch, int slaves, double mbits) {
  std::vector<DescribedMachine> described;
  for (std::size_t i = 0; i < static_cast<std::size_t>(slaves); ++i) {
    described.push_back({.gflops = machines.gflops[i % machines.gflops.size()], .mbits = mbits});
  }
  constexpr double kMilli = 1e-3;
  Calibration calibration =
      calibration_of(described, {.gflops = machines.master_gflops, .latency = kMilli * machines.latency}, parts, batch);
  if (machines.from_run.empty()) return calibration;
  const std::string file = machines.from_run + "/calibration.json";
  Calibration timed = calibration_from_json(read_text(file), file, parts.trunk, batch);
  std::erase_if(timed.members, [](const MemberProfile& member) { return member.name == kMasterName; });
  if (timed.members.empty()) fail("{}: none of its members is a slave; use a run with slaves", file);
  std::vector<MemberProfile> members;
  for (const MemberProfile& slave : calibration.members) {
    members.push_back(timed.members[members.size() % timed.members.size()]);
    members.back().name = slave.name;
  }
  timed.members = std::move(members);
  return timed;
}

SimulatedPoint simulate_point(const Cut& parts, int batch, const Calibration& calibration, const Wishes& wishes) {
  SimulatedPoint point;
  point.choice = choose_plan(parts.trunk, batch, calibration.members, wishes, calibration.master);
  point.seconds_alone = std::numeric_limits<double>::infinity();
  for (const MemberProfile& member : calibration.members) {
    point.seconds_alone =
        std::min(point.seconds_alone, convoy::seconds_alone(parts.trunk, member, batch, calibration.master.head));
  }
  std::set<int> working;
  for (const StagePlan& stage : point.choice.plan.stages) {
    for (const Tile& tile : tiles_of(stage)) working.insert(tile.member);
  }
  point.working = static_cast<int>(working.size());
  return point;
}

std::optional<Exchange> exchange_wish(const std::string& name) {
  if (name == "auto") return std::nullopt;
  return exchange_from(name);
}

}  // namespace convoy
