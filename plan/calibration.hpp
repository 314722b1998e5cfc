// The measurements of a cluster's members as data. A run writes them; the planner and the simulator read them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/profile.hpp"

namespace convoy {

/// The timings of a net at one batch size on all machines of a run.
struct Calibration {
  int batch = 0;  ///< batch size of all timings
  /// Names, in order. Where `sliced_head` is set, those of the net's stages come first, and those of the slices of its
  /// first dense layer follow (nets/graph/dense_slices.hpp).
  std::vector<std::string> stages;
  MasterProfile master;
  std::vector<MemberProfile> members;
  double seconds_alone = 0.0;                 ///< seconds of a step on the master's machine alone; 0: not measured
  std::optional<HeadTimes> sliced_head = {};  ///< without the first dense layer
};

/// Returns the calibration without the slices of a dense layer. `stages` is the number of the net's stages.
Calibration without_slices(Calibration calibration, std::size_t stages);

/// Returns the JSON that a run writes to its calibration.json.
std::string to_json(const Calibration& calibration);
/// Reads a calibration of any net. Throws Error naming `file` and the field.
Calibration calibration_from_json(const std::string& text, const std::string& file);
/// Reads a calibration of this net, without the slices of its first dense layer unless the trunk is `sliced`. Throws
/// Error naming `file` and the field, also if the calibration is for another net or batch.
Calibration calibration_from_json(const std::string& text, const std::string& file, const std::vector<Stage>& trunk,
                                  int batch, bool sliced = false);

}  // namespace convoy
