// Writes what a run leaves in its folder, which may fill up, become unwritable or be deleted while the run goes on.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "model/checkpoint.hpp"
#include "train/observer.hpp"

namespace convoy {

/// A state of a run that is to be saved.
struct SavedState {
  TrainingState state;
  RunIdentity run;
  std::string plan;  ///< of the members, as JSON
};

/// The files of one run, apart from those that observers write.
class RunFiles {
 public:
  /// The references must stay valid.
  RunFiles(std::string folder, const Cut& cut, const Net& net, const Observers& observers)
      : folder_(std::move(folder)), cut_(cut), net_(net), observers_(observers) {}

  const std::string& folder() const { return folder_; }

  /// Writes FOLDER/NAME now, and again with a checkpoint when it is gone. Throws Error.
  void keep(const std::string& name, const std::string& text);

  /// Writes a checkpoint, the weights and the plan. Makes the folder anew, with a notice, where it is gone. Throws
  /// Error.
  void save(const SavedState& state);
  /// The same for a run in which training is worth more than the files: a failure is a notice, and the state is held in
  /// memory until one is saved. Throws Diverged if the state has values that are not finite.
  void try_to_save(SavedState state);
  /// For the end of a run: where the last state could not be saved, tries again until it can. Throws Error when
  /// somebody stops the program meanwhile.
  void finish(const std::atomic<bool>& stop);

  /// The step of the last checkpoint that was written; -1 before the first.
  long saved_step() const { return saved_step_; }

  /// Writes the weights of the best epoch so far. A failure is a notice. Throws Diverged if weights are not finite.
  void try_to_save_best(const BestEpoch& best, const ModelState& model);
  /// Writes snapshot-CYCLE.safetensors, the weights at the end of a cycle of the schedule, of so many epochs. A failure
  /// is a notice. Throws Diverged if weights are not finite.
  void try_to_save_snapshot(int cycle, int epoch, const ModelState& model);
  /// Whether that file is there.
  bool has_snapshot(int cycle) const;
  /// The best epoch of a run that goes on.
  BestEpoch best_before();

 private:
  std::string best_file() const { return folder_ + "/best.safetensors"; }
  std::string snapshot_file(int cycle) const;
  void notice(const std::string& text) const;
  void make_anew();

  std::string folder_;
  const Cut& cut_;
  const Net& net_;
  const Observers& observers_;
  std::map<std::string, std::string> kept_;  ///< the texts of files that are written once, by their names

  long saved_step_ = -1;

  // The last state, where it could not be saved.
  SavedState unsaved_;
  std::string why_unsaved_;  ///< empty: the last state was saved
};

}  // namespace convoy
