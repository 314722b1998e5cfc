// A training from its options to the files in its run folder: `convoy-master train`, and each rung of a search.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data/dataset.hpp"
#include "master/commands/teachers.hpp"
#include "master/commands/team.hpp"
#include "master/report/energy_watch.hpp"
#include "master/report/run_files.hpp"
#include "master/report/run_folder.hpp"
#include "train/train.hpp"

namespace convoy {

/// The name of a paced device; empty where the device computes.
std::string paced_device(const NetOptions& options);

/// How a rung of a search ended.
struct RungEnd {
  bool interrupted = false;               ///< by Ctrl-C; a checkpoint was written
  std::optional<Evaluation> tested = {};  ///< on all test images, after the last step
  std::string diverged = {};              ///< how training diverged; empty if it did not
  ImageBytes images = {};                 ///< bytes of the images that slaves needed; counted if slaves keep images
  long steps = 0;                         ///< steps done in all epochs; 0 if training diverged
};

class TrainingRun {
 public:
  struct Parts {
    Observers observers = {};                       ///< besides those that write the run's files
    std::shared_ptr<const DataSet> data = nullptr;  ///< the images; null to open the data of the options
    bool curves = true;                             ///< whether loss and accuracy are plotted
    Team::Door door = {};                           ///< through which slaves come
    /// Ends the run after the step, with a checkpoint, once it is set; null for Ctrl-C.
    const std::atomic<bool>* stop = nullptr;
  };

  /// Reads the net, the data and, with options.resume, the checkpoint. `command_line` is the user's. The options must
  /// outlive the run. Throws Error for all that cannot work, before slaves are waited for.
  TrainingRun(const TrainOptions& options, const std::string& command_line, Parts parts);

  /// Trains to the end of the epochs, or to options.steps, and returns the exit code of the program. Throws Error and
  /// Diverged.
  int run();
  /// The same, and then a test on all test images, unless an epoch has just ended with its test. Training that diverges
  /// is a result, and no error. Throws PeerLost where slaves are lost and the run cannot go on.
  RungEnd run_rung();

 private:
  int images_in_step() const;
  void keep_power(const Team& team, const EnergyReport& energy);
  std::string config(const std::string& command_line) const;
  RunIdentity identity() const;
  void take_new_outputs();
  TrainingState initial();
  void announce(const Team& team);
  SavedState saved(const Team& team, const TrainingState& state) const;
  int train_and_end(Team& team, const std::atomic<bool>& stop);
  void keep_missed_snapshot();
  std::string after_divergence() const;
  RunEnd end_of(const Outcome& outcome, long verified) const;
  std::string go_on() const;
  std::string what_is_left() const;
  const char* written() const;
  void end(const RunEnd& end);

  const TrainOptions& options_;
  Net net_;
  Cut cut_;
  std::vector<std::string> except_ = {};  ///< layers that begin with random weights although others are read
  std::shared_ptr<const DataSet> data_;
  UnbegunRun unbegun_;  ///< its files are removed after the observers have closed them
  Observers observers_;
  std::string paced_;  ///< name of the device where it is paced; empty where the run computes
  EnergyWatch energy_;
  std::string fingerprint_;
  std::unique_ptr<Batches> training_;
  std::unique_ptr<Batches> test_;
  std::unique_ptr<Teachers> teachers_;
  TrainingState start_;
  std::unique_ptr<RunFiles> files_;
  std::string config_;  ///< the text of config.yaml
  std::string go_on_;
  RungEnd* rung_ = nullptr;  ///< where the run is a rung
  Team::Door door_;
  const std::atomic<bool>* stop_;  ///< null for Ctrl-C
};

}  // namespace convoy
