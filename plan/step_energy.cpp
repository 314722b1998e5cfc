#include "plan/step_energy.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace convoy {
namespace {

constexpr std::pair<const char*, Objective> kObjectives[] = {
    {"time", Objective::time}, {"energy", Objective::energy}, {"edp", Objective::edp}};

/// Whether the last member is the master's machine.
bool has_master(const std::vector<MemberProfile>& members) {
  return !members.empty() && is_master(members.back().name);
}

bool works(const NodeUse& use) {
  return use.compute > 0.0 || use.busy > 0.0 || use.bytes_in > 0.0 || use.bytes_out > 0.0;
}

double joules_of(const Power& power, const NodeUse& use, double seconds) {
  const double idle = std::max(0.0, seconds - use.busy - use.moving);
  return power.compute * use.busy + power.transfer * use.moving + power.idle * idle;
}

}  // namespace

std::optional<double> StepEnergy::joules() const {
  if (!unknown.empty()) return std::nullopt;
  return known + assumed + declared;
}

StepEnergy energy_of(const Simulated& step, const std::vector<MemberProfile>& members, const MasterProfile& master,
                     const EnergyTerms& terms) {
  StepEnergy energy{.nodes = {}, .declared = terms.switch_watts * step.seconds, .unknown = {}};
  for (std::size_t n = 0; n < step.nodes.size(); ++n) {
    const bool member = n < members.size();
    const bool of_master = !member || is_master(members[n].name);
    if (terms.idle_off && !of_master && !works(step.nodes[n])) {
      energy.nodes.emplace_back(0.0);
      continue;
    }
    ++energy.machines;
    if (const std::optional<Power>& power = member ? members[n].power : master.power) {
      energy.nodes.emplace_back(joules_of(*power, step.nodes[n], step.seconds));
      energy.known += *energy.nodes.back();
    } else if (terms.assumed_watts > 0.0) {
      energy.nodes.emplace_back(terms.assumed_watts * step.seconds);
      energy.assumed += *energy.nodes.back();
    } else {
      energy.nodes.emplace_back(std::nullopt);
      energy.unknown.push_back(member ? members[n].name : kMasterName);
    }
  }
  return energy;
}

StepEnergy energy_alone(double seconds, const std::vector<MemberProfile>& members, const MasterProfile& master,
                        const EnergyTerms& terms) {
  Simulated step{.seconds = seconds, .nodes = std::vector<NodeUse>(members.size() + (has_master(members) ? 0 : 1))};
  step.nodes.back().busy = seconds;
  return energy_of(step, members, master, terms);
}

std::string to_string(Objective objective) {
  for (const auto& [name, value] : kObjectives) {
    if (value == objective) return name;
  }
  return "";
}

Objective objective_from(const std::string& text) {
  for (const auto& [name, value] : kObjectives) {
    if (text == name) return value;
  }
  fail("unknown objective '{}'; known are time, energy, edp", text);
}

double cost_of(Objective objective, double seconds, const std::optional<double>& joules) {
  if (objective == Objective::time) return seconds;
  invariant(joules.has_value(), "the power of each machine is known");
  return objective == Objective::energy ? *joules : *joules * seconds;
}

std::string describe(const StepEnergy& energy, double seconds, int images) {
  if (!energy.tells()) return "";
  const double joules = energy.known + energy.assumed + energy.declared;
  std::string text = fmt::format("{:.4g} J a step, {:.4g} J/image, energy-delay product {:.4g} J s", joules,
                                 joules / images, joules * seconds);
  if (energy.declared > 0.0) text += fmt::format("; {:.4g} J declared for network gear", energy.declared);
  if (energy.assumed > 0.0) text += fmt::format("; {:.4g} J assumed", energy.assumed);
  if (!energy.unknown.empty()) {
    text += fmt::format("; without {}, whose watts are not known", fmt::join(energy.unknown, ", "));
  }
  return text;
}

}  // namespace convoy
