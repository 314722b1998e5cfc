// The list of a machine's meters for people.
#pragma once

#include <string>
#include <vector>

#include "energy/machine.hpp"

namespace convoy::energy {

/// Returns a line for each meter of this machine: which is chosen for its device, what it covers, how it comes to its
/// values, how often they change and the power now, or why it cannot be used. Observes each usable meter for up to 1 s.
/// `named` is as in list_meters. Throws Error if a name is not that of a meter.
std::string meter_list(const Machine& machine, const std::vector<std::string>& named);

}  // namespace convoy::energy
