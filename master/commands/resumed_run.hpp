// What a run needs to go on from its folder: its checkpoint, and the check that it is the same run.
#pragma once

#include <optional>
#include <string>

#include "master/commands/options.hpp"
#include "model/checkpoint.hpp"
#include "train/observer.hpp"

namespace convoy {

/// Returns a text of all settings that must be equal for a run to go on from a checkpoint.
std::string fingerprint(const Net& net, const TrainOptions& options);

/// Returns the command line that resumes the run in a folder: its config.yaml has the net and the options. The program
/// is the first word of `command_line`.
std::string go_on_command(const std::string& command_line, const std::string& folder);

/// Returns the state from which the run in the folder options.out goes on, or nothing if the run ended before its first
/// checkpoint. Throws Error if the folder has no run, if its checkpoints are gone or damaged, and if the checkpoint is
/// of a run with other settings, images or epochs.
std::optional<TrainingState> state_of(const TrainOptions& options, const Cut& cut, const RunIdentity& expected,
                                      const Observers& observers);

}  // namespace convoy
