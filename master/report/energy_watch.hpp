// The energy of a run: of the master's own machine, and of the slaves as they tell it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "energy/machine.hpp"
#include "energy/run_energy.hpp"
#include "energy/sampler.hpp"
#include "master/commands/options.hpp"
#include "train/observer.hpp"

namespace convoy {

/// Reads the meter of this machine, and counts the master's part in each step. Every command that computes a net has
/// one.
class EnergyWatch {
 public:
  /// A meter that the options name is read from now on. Throws Error if it cannot be used, before slaves are waited
  /// for.
  explicit EnergyWatch(EnergyOptions options);

  /// The steps begin. Without a named meter, takes the best for a machine that computes on a GPU or on its processor.
  void begin(bool on_gpu);
  /// Counts the master's times in a step, or in a batch of a test, that took `seconds`. Where it is `alone`, it has
  /// computed all the time. Otherwise, without a share of the work, it has waited for others.
  void count(const std::vector<MemberTime>& times, double seconds, bool alone);
  /// Returns the energy since begin(), with that of the slaves.
  EnergyReport report(std::vector<MemberEnergy> slaves);

 private:
  void open(bool on_gpu);

  EnergyOptions options_;
  std::unique_ptr<energy::Machine> machine_;
  std::optional<energy::Sampler> sampler_;  ///< empty without a meter
  std::optional<energy::RunEnergy> own_;    ///< empty until the meter is chosen
  Clock::time_point begin_;
};

}  // namespace convoy
