// The master of a simulated run: what train_command does, without text for people, and with a record of what was kept.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "data/batches.hpp"
#include "tests/simulation/lan.hpp"
#include "tests/simulation/replay.hpp"
#include "tests/simulation/scenario.hpp"

namespace convoy::simulation {

/// Changes a bit in the middle of a file, as a bad disk does.
void change_bit(const std::string& path);

/// What outlives a master that dies.
class Run {
 public:
  /// `folder` is the run's.
  Run(const Scenario& scenario, const std::string& folder);

  /// Trains until the end or `stop`; goes on from a checkpoint where there is one.
  void train(wire::Network& network, Actor& actor, Log& log);
  /// What a death in the middle of write_checkpoint() leaves, or a disk that forgets: one of several kinds.
  void damage(int kind);
  /// Returns how the outcome differs from that of an undisturbed run.
  std::string judge() const;

  std::atomic<bool> stop{false};
  bool disk_full = false;
  bool begun = false;  ///< since its last start
  bool ended = false;
  bool waits = false;                ///< for more slaves
  std::vector<std::string> members;  ///< of the plan at hand
  std::function<void(const std::string& name, const std::string& text)> on_loss;
  const Kept& kept() const { return kept_; }

 private:
  friend class Recorder;
  class Watcher;
  void save(const TrainingState& state, Log& log);
  TrainingState start(Log& log);
  Training training() const;
  long steps_at(const Progress& progress) const;
  void forget_steps_after(long steps);

  const Scenario& scenario_;
  std::string folder_;
  NetOptions net_options_;
  Net net_;
  Cut cut_;
  DataSet data_;
  Batches batches_;
  Batches tests_;
  Kept kept_;
};

}  // namespace convoy::simulation
