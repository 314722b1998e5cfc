#include "bench/machines.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/checks.hpp"
#include "core/files.hpp"
#include "master/cluster/described_machines.hpp"
#include "master/cluster/net_forms.hpp"

namespace convoy {

void add_options(CLI::App& command, Machines& machines) {
  auto* gflops = command
                     .add_option("--gflops", machines.gflops,
                                 "speeds of the slaves in GFLOP/s, separated by commas; if there are fewer numbers "
                                 "than slaves, they repeat")
                     ->delimiter(',')
                     ->check(positive_number())
                     ->capture_default_str();
  command.add_option("--master-gflops", machines.master_gflops, "speed of the master in GFLOP/s")
      ->check(positive_number())
      ->capture_default_str();
  auto* watts = command
                    .add_option("--watts", machines.watts,
                                "power of the slaves in W, IDLE:COMPUTE:TRANSFER, such as 5:25:8, separated by commas; "
                                "if there are fewer values than slaves, they repeat")
                    ->delimiter(',')
                    ->check(readable([](const std::string& text) { power_from(text); }));
  auto* master_watts = command
                           .add_option("--master-watts", machines.master_watts,
                                       "power of the master in W, IDLE:COMPUTE:TRANSFER such as 5:25:8")
                           ->check(readable([](const std::string& text) { power_from(text); }));
  command
      .add_option_function<std::string>(
          "--objective", [&machines](const std::string& word) { machines.objective = objective_from(word); },
          "what the planner minimises: time (of a step), energy (of a step), or edp (energy x time)")
      ->check(one_of({"time", "energy", "edp"}))
      ->default_str("time");
  command.add_option("--switch-watts", machines.terms.switch_watts, "declared power of network gear in W")
      ->check(number(0.0, 1e5));
  command
      .add_option("--assume-watts", machines.terms.assumed_watts,
                  "power in W to assume for each machine whose power is not known")
      ->check(number(0.0, 1e5));
  command.add_flag("--idle-off", machines.terms.idle_off,
                   "count slaves to which a plan gives no work as switched off; without this option they count with "
                   "their idle power");
  command.add_option("--latency", machines.latency, "latency of a message in ms")
      ->check(number(0.0, 1e12))
      ->capture_default_str();
  command
      .add_option("--from-run", machines.from_run,
                  "folder of a run: the members that it timed replace the given speeds and links; if there are fewer "
                  "members than slaves, they repeat")
      ->excludes(gflops)
      ->excludes(watts)
      ->excludes(master_watts);
}

Calibration calibration_of(const Machines& machines, const Cut& parts, int batch, int slaves, double mbits) {
  std::vector<DescribedMachine> described;
  for (std::size_t i = 0; i < static_cast<std::size_t>(slaves); ++i) {
    described.push_back({.gflops = machines.gflops[i % machines.gflops.size()], .mbits = mbits});
    if (!machines.watts.empty()) described.back().power = power_from(machines.watts[i % machines.watts.size()]);
  }
  constexpr double kMilli = 1e-3;
  DescribedMaster master{.gflops = machines.master_gflops, .latency = kMilli * machines.latency};
  if (!machines.master_watts.empty()) master.power = power_from(machines.master_watts);
  const auto slices = slice_dense(parts, slices_for(parts, slaves));
  Calibration calibration = calibration_of(described, master, parts, batch, slices ? &*slices : nullptr);
  if (machines.from_run.empty()) return calibration;
  const std::string file = machines.from_run + "/calibration.json";
  if (!std::filesystem::exists(file)) {
    fail(
        "{}: the folder has no calibration.json, which runs with slaves write; give --from-run the folder of such a "
        "run",
        machines.from_run);
  }
  Calibration timed = calibration_from_json(read_text(file), file, parts.trunk, batch);
  if (is_master(timed.members.back().name)) timed.master.power = timed.members.back().power;
  std::erase_if(timed.members, [](const MemberProfile& member) { return is_master(member.name); });
  if (timed.members.empty()) fail("{}: none of its members is a slave; use a run with slaves", file);
  std::vector<MemberProfile> members;
  for (const MemberProfile& slave : calibration.members) {
    members.push_back(timed.members[members.size() % timed.members.size()]);
    members.back().name = slave.name;
  }
  timed.members = std::move(members);
  return timed;
}

SimulatedPoint simulate_point(const Cut& parts, const Calibration& calibration, const Wishes& wishes) {
  SimulatedPoint point;
  const bool both = wishes.layout != Layout::samples && wishes.exchange != Exchange::thesis;
  const auto slices = both ? slices_of(calibration, parts) : std::nullopt;
  FormChoice chosen = choose_form(parts, slices ? &*slices : nullptr, calibration, wishes);
  point.choice = std::move(chosen.choice);
  point.plan = describe(point.choice.plan) + (chosen.sliced ? kSharedDense : "");
  point.seconds_alone = std::numeric_limits<double>::infinity();
  for (const MemberProfile& member : calibration.members) {
    point.seconds_alone = std::min(
        point.seconds_alone, convoy::seconds_alone(parts.trunk, member, calibration.batch, calibration.master.head));
  }
  std::set<int> working;
  for (const StagePlan& stage : point.choice.plan.stages) {
    for (const Tile& tile : tiles_of(stage)) working.insert(tile.member);
  }
  point.working = static_cast<int>(working.size());
  return point;
}

std::string joules_per_image(const StepEnergy& energy, int batch) {
  const std::optional<double> joules = energy.joules();
  return joules ? fmt::format("{:.4g}", *joules / batch) : "";
}

std::string unknown_power(const StepEnergy& energy) { return fmt::format("{}", fmt::join(energy.unknown, " ")); }

std::optional<Exchange> exchange_wish(const std::string& name) {
  if (name == "auto") return std::nullopt;
  return exchange_from(name);
}

}  // namespace convoy
