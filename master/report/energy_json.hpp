// The energy of a run as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "master/report/energy_total.hpp"

namespace convoy {

/// Returns the energy of each member, and the sums. A member whose energy is not measurable has the reason in the place
/// of numbers.
nlohmann::ordered_json energy_json(const EnergyReport& report);
/// Returns the same with what it comes to for an image. What is declared and assumed is in these figures.
nlohmann::ordered_json energy_json(const EnergyReport& report, const EnergyUse& use);

}  // namespace convoy
