// The table of all sources, and the choice among a machine's meters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "energy/machine.hpp"
#include "energy/meter.hpp"

namespace convoy::energy {

/// Returns the meters of this machine, usable or not, and those that `named` asks for beside them: "shelly:ADDRESS",
/// "tasmota:ADDRESS" or "csv:FILE". For each device one usable meter is chosen: the first named, else the one that
/// measures best. Throws Error if a name is not that of a meter. The machine must outlive the meters.
std::vector<MeterRow> list_meters(const Machine& machine, const std::vector<std::string>& named);

/// A meter for one member of a run, or the reason why it has none.
struct MemberMeter {
  std::optional<MeterRow> row;
  std::string why;  ///< empty if there is a row
};
/// Returns the meter for a member that computes on a GPU or on the processor: the one that is named, else one of the
/// whole machine, else that of the processor or of the only GPU. Throws Error if the named meter cannot be used.
MemberMeter meter_for_member(const Machine& machine, const std::string& named, bool on_gpu);

/// Returns the sources of which this machine has nothing, for people.
std::vector<std::string> sources_not_found(const std::vector<MeterRow>& rows);

}  // namespace convoy::energy
