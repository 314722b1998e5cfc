// The state of a machine, for the manifest of a study. A fact that the machine does not tell is absent with the reason:
// {"absent": "..."}. This header includes nlohmann/json.hpp and is for sources, not for other headers.
#pragma once

#include <nlohmann/json.hpp>

#include "energy/machine.hpp"

namespace convoy::study {

/// Returns the facts that do not change: the machine's model, processor and kernel.
nlohmann::ordered_json machine_facts(const energy::Machine& machine);

/// Returns the facts of now: date, temperatures, clocks of the processor (cpufreq) and of other devices (devfreq), and
/// the charge of batteries.
nlohmann::ordered_json state_facts(const energy::Machine& machine);

}  // namespace convoy::study
