// The energy of one machine in a run: what its meter tells, as it travels from slaves to the master and to the reports.
#pragma once

#include <cstdint>
#include <string>

namespace convoy {

/// The energy of a machine since its first step in a run, up to the meter's last reading, which may be a refresh ago.
/// If it is not measurable, `refusal` says why, for people, and the numbers are 0.
struct MachineEnergy {
  std::string meter;    ///< name of the meter; empty if there is none
  std::string scope;    ///< the part of the machine that the meter covers, such as "board"
  std::string origin;   ///< "measured", "smoothed" or "modelled"
  double seconds = 0;   ///< time that the energy covers
  double compute = 0;   ///< J while the machine computed
  double transfer = 0;  ///< J while it moved data
  double wait = 0;      ///< J while it waited
  /// The parts of `seconds` in which it computed, moved data and waited.
  double compute_seconds = 0;
  double transfer_seconds = 0;
  double wait_seconds = 0;
  double error = 0;       ///< half-width of the 95 % interval of their sum, in J
  double watts = 0;       ///< power now, in W
  double idle_watts = 0;  ///< power before the run, in W; 0 if it is not known
  double idle_error = 0;  ///< half-width of its 95 % interval, in W
  std::string refusal;
  double refresh = 0;       ///< seconds between two new values of the meter, as observed
  std::uint64_t wraps = 0;  ///< how often its counters began again at 0
  std::uint64_t gaps = 0;   ///< times without a reading that are much longer than the refresh (energy/record.hpp)
  double gap_seconds = 0;   ///< the seconds in gaps

  double joules() const { return compute + transfer + wait; }
  bool measured() const { return refusal.empty() && !meter.empty(); }
};

}  // namespace convoy
