#include "master/cluster/learned_power.hpp"

#include <algorithm>
#include <map>

#include "core/error.hpp"
#include "core/files.hpp"
#include "plan/plan.hpp"

namespace convoy {
namespace {

/// A part of a run's time that is too short to tell a power.
constexpr double kTooShort = 0.05;

/// Returns the joules above the idle power.
double above(double joules, double seconds, double idle) { return std::max(0.0, joules - idle * seconds); }

}  // namespace

std::optional<Power> power_of(const MachineEnergy& energy) {
  const double compute = energy.compute_seconds;
  const double transfer = energy.transfer_seconds;
  const double wait = energy.wait_seconds;
  const double least = kTooShort * energy.seconds;
  if (!energy.measured() || !(least > 0.0) || compute < least) return std::nullopt;
  if (energy.idle_watts <= 0.0 && wait < least) return std::nullopt;
  const double idle = energy.idle_watts > 0.0 ? energy.idle_watts : energy.wait / wait;
  // A meter that changes more slowly than a transfer lasts gives a short transfer the joules of the computing around
  // it.
  const bool moves = transfer >= least;
  const double computing =
      above(energy.compute, compute, idle) + (moves ? 0.0 : above(energy.transfer, transfer, idle));
  const double moving = moves ? above(energy.transfer, transfer, idle) : 0.0;
  if (!(computing > 0.0)) return std::nullopt;  // the meter says that computing takes no more than idling
  const double factor = 1.0 + above(energy.wait, wait, idle) / (computing + moving);
  const Power power{.idle = idle,
                    .compute = idle + factor * computing / compute,
                    .transfer = moves ? idle + factor * moving / transfer : idle};
  return fault_in(power).empty() ? std::optional(power) : std::nullopt;
}

void learn_power(Calibration& calibration, const std::vector<MemberEnergy>& energies) {
  for (const MemberEnergy& each : energies) {
    const auto member = std::ranges::find(calibration.members, each.member, &MemberProfile::name);
    if (member != calibration.members.end()) {
      if (const auto power = power_of(each.energy)) member->power = power;
    } else if (is_master(each.member) && each.energy.measured() && each.energy.seconds > 0.0) {
      const double watts = each.energy.joules() / each.energy.seconds;
      const Power power{.idle = watts, .compute = watts, .transfer = watts};
      if (fault_in(power).empty()) calibration.master.power = power;
    }
  }
}

void take_power(Calibration& calibration, const std::string& file) {
  const Calibration before = calibration_from_json(read_text(file), file);
  std::map<std::string, Power> known;
  for (const MemberProfile& member : before.members) {
    if (member.power) known[member.name] = *member.power;
  }
  if (before.master.power) known[kMasterName] = *before.master.power;
  if (known.empty()) {
    fail("{}: it has the watts of no machine; take the calibration.json of a run in which machines had meters", file);
  }
  for (MemberProfile& member : calibration.members) {
    const auto found = known.find(member.name);
    if (found != known.end()) member.power = found->second;
  }
  const auto master = known.find(kMasterName);
  if (master != known.end()) calibration.master.power = master->second;
}

}  // namespace convoy
