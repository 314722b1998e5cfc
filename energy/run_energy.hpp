// The energy of this machine in one run, split by what the program did.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "core/machine_energy.hpp"
#include "energy/sampler.hpp"

namespace convoy::energy {

/// Used by one thread, while the sampler reads in a thread of its own.
class RunEnergy {
 public:
  /// The sampler must outlive this object. If it is null, `why` says why there is no meter.
  RunEnergy(Sampler* sampler, std::string why);

  /// The machine has been idle from the construction until now.
  void end_idle();
  /// Begins to count with the first call; others do nothing.
  void begin();
  /// Counts the seconds since the last call, by what they were spent with.
  void count(double compute, double transfer, double wait);
  /// Returns the energy up to the last reading, or nothing before begin() and where there is neither a
  /// meter nor a reason.
  std::optional<MachineEnergy> report();
  /// Number of spans whose energy the meter has not told yet.
  std::size_t slots() const { return slots_.size(); }

 private:
  /// A while with its seconds of each kind.
  struct Slot {
    Clock::time_point from;
    Clock::time_point to;
    double compute = 0;
    double transfer = 0;
    double wait = 0;
  };

  void add(const Slot& slot, double joules);
  void join_slots();
  void judge(Record& record);

  Sampler* sampler_;
  MachineEnergy energy_;  ///< up to the slots that are still open
  Clock::time_point idle_since_;
  std::optional<Clock::time_point> begin_;
  Clock::time_point judged_;  ///< when the interval was computed last
  std::deque<Slot> slots_;    ///< slots whose energy the meter has not told yet; the last slot may still grow
};

}  // namespace convoy::energy
