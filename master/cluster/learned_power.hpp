// The power of a run's machines, learned from the energy that their meters told, for plans of later runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/calibration.hpp"
#include "train/trunk.hpp"

namespace convoy {

/// Returns the power of a machine from its joules and seconds of a run. The idle power is the one before the run or,
/// where that is not known, the power while waiting. All joules above idle are those of computing and of moving data,
/// in the proportion of the split, so that the power gives the joules of this run again. Where moving data took less
/// than a twentieth of the time, its power cannot be told: it counts as the idle power, and all joules above idle are
/// those of computing. Returns nothing where the energy was not measured, where the machine computed for less than a
/// twentieth of the time, and where its idle power is not known and it waited for less.
std::optional<Power> power_of(const MachineEnergy& energy);

/// Sets the power of all machines whose energy was measured. A master that is no member takes its mean power, whatever
/// it does.
void learn_power(Calibration& calibration, const std::vector<MemberEnergy>& energies);

/// Sets the power of the machines that have the names of those in a calibration of an earlier run, where it knows their
/// power. Throws Error where the file is not a calibration, or knows the power of no machine.
void take_power(Calibration& calibration, const std::string& file);

}  // namespace convoy
