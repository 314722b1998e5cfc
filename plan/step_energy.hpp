// The energy of a step, from the seconds of a simulation and the power of each machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/simulate.hpp"

namespace convoy {

/// The terms of an energy beside the power that is known of machines.
struct EnergyTerms {
  double switch_watts = 0.0;   ///< declared power of network gear, in W
  double assumed_watts = 0.0;  ///< power of each machine whose own is not known, in W, whatever it does; 0: not assumed
  bool idle_off = false;       ///< machines that a plan gives no work are switched off, and take nothing
};

/// The energy of a step, in J. Known, assumed and declared energies stay apart.
struct StepEnergy {
  std::vector<std::optional<double>> nodes;  ///< by node of the simulation; nothing where the power is not known
  double known = 0.0;                        ///< sum over the machines of known power
  double assumed = 0.0;                      ///< sum over the machines of assumed power
  double declared = 0.0;                     ///< energy of network gear
  int machines = 0;                          ///< number of machines that are switched on
  std::vector<std::string> unknown;          ///< names of the machines whose power is neither known nor assumed

  /// Returns the energy of everything, or nothing where the power of a machine is not known.
  std::optional<double> joules() const;
  /// Returns whether the power of any machine is known or assumed.
  bool tells() const { return unknown.size() < static_cast<std::size_t>(machines); }
};

/// Returns the energy of a simulated step. A machine takes the power of computing while it computes, that of transfer
/// while its link moves bytes and it computes nothing, and that of idling for the rest of the step, also where the plan
/// gives it no work. `step.nodes` are the members and, where the last of them is not the master, the master.
StepEnergy energy_of(const Simulated& step, const std::vector<MemberProfile>& members, const MasterProfile& master,
                     const EnergyTerms& terms);

/// Returns the energy of a step of `seconds` that the master's machine computes alone, while the other members idle.
StepEnergy energy_alone(double seconds, const std::vector<MemberProfile>& members, const MasterProfile& master,
                        const EnergyTerms& terms);

/// What the planner makes as small as it can.
enum class Objective {
  time,    ///< seconds of a step
  energy,  ///< joules of a step
  edp      ///< energy-delay product of a step: joules times seconds
};
/// Names such as "edp". The function from text throws Error listing the known names.
std::string to_string(Objective objective);
Objective objective_from(const std::string& text);

/// Returns the value that an objective makes small: s, J, or J s. For other objectives than time, `joules` must be
/// known.
double cost_of(Objective objective, double seconds, const std::optional<double>& joules);

/// Returns for people the energy of a step of `images` images and the machines that it leaves out, such as "12 J a
/// step,
/// 0.19 J/image"; an empty text where nothing is known.
std::string describe(const StepEnergy& energy, double seconds, int images);

}  // namespace convoy
