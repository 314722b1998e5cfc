// The energy of a whole run, from that of its members, and the figures that people compare.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/observer.hpp"

namespace convoy {

/// Sums over the members. What is not measured is in no sum but those of declared and assumed energy.
struct EnergyTotal {
  int members = 0;
  int measured = 0;       ///< members whose energy is measurable
  double joules = 0;      ///< of these, in J
  double error = 0;       ///< half-width of the 95 % interval, in J; members are taken to err independently
  double compute = 0;     ///< J while they computed
  double transfer = 0;    ///< J while they moved data
  double wait = 0;        ///< J while they waited
  double watts = 0;       ///< their power now, in W
  double seconds = 0;     ///< the longest time that a member's energy covers
  int with_idle = 0;      ///< measured members whose idle power is known
  double above_idle = 0;  ///< J of these above idle
  double above_idle_error = 0;
  double declared = 0;      ///< J of network gear, of declared power
  double assumed = 0;       ///< J of the members that are not measured, at the power that the user assumes
  std::uint64_t wraps = 0;  ///< of the measured members' counters
  std::uint64_t gaps = 0;   ///< between the readings of the measured members' meters
  double gap_seconds = 0;   ///< the seconds in these
  /// J of everything: what is measured, declared and assumed.
  double all() const { return joules + declared + assumed; }
};
EnergyTotal total_of(const EnergyReport& report);

/// What the energy was spent on.
struct EnergyUse {
  double images = 0;   ///< number of images that were trained on, tested or classified
  double flops = 0;    ///< floating-point operations of the convolutions: forward, and in training backward
  double seconds = 0;  ///< of the run
};

/// Returns lines for people at the end of a run: each member, the total, J/image and the like. Returns none where no
/// member has a meter, and nothing is declared or assumed.
std::vector<std::string> energy_lines(const EnergyReport& report, const EnergyUse& use);
/// Returns "93 W", or "93 W of 2/3 members", for the line of progress; an empty text if no member is measured.
std::string watts_now(const EnergyReport& report);

}  // namespace convoy
