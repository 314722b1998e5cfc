// The energy of a run: of the master's own machine, and of the slaves as they tell it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "energy/machine.hpp"
#include "energy/run_energy.hpp"
#include "energy/sampler.hpp"
#include "plan/step_energy.hpp"
#include "train/observer.hpp"

namespace convoy {

struct EnergyOptions {
  std::string meter;  ///< name of the meter of the master's machine; empty: the best one; "none": no meter
  EnergyTerms terms;  ///< declared and assumed powers
};

/// Reads the meter of this machine from construction to destruction, and counts the master's part in each step.
class EnergyWatch {
 public:
  /// Throws Error if the meter that the options name cannot be used.
  EnergyWatch(const EnergyOptions& options, bool on_gpu);

  /// Training begins.
  void begin();
  /// Counts the master's times in a step that took `seconds`. Without a share of the work, it waits for others.
  void count(const std::vector<MemberTime>& times, double seconds);
  /// Returns the energy up to now, with that of the slaves.
  EnergyReport report(std::vector<MemberEnergy> slaves);

 private:
  EnergyOptions options_;
  std::unique_ptr<energy::Machine> machine_;
  std::optional<energy::Sampler> sampler_;  ///< empty without a meter
  std::optional<energy::RunEnergy> own_;
  Clock::time_point begin_;
};

}  // namespace convoy
