// The measurements of a cluster's members as data. A run writes them; the planner and the simulator read them.
#pragma once

#include <string>
#include <vector>

#include "plan/profile.hpp"

namespace convoy {

/// The timings of a net at one batch size on all machines of a run.
struct Calibration {
  int batch = 0;                    ///< batch size of all timings
  std::vector<std::string> stages;  ///< names, in order
  MasterProfile master;
  std::vector<MemberProfile> members;
  double seconds_alone = 0.0;  ///< seconds of a step on the master's machine alone; 0: not measured
};

/// Returns the JSON that a run writes to its calibration.json.
std::string to_json(const Calibration& calibration);
/// Reads a calibration of any net. Throws Error naming `file` and the field.
Calibration calibration_from_json(const std::string& text, const std::string& file);
/// Reads a calibration of this net. Throws Error naming `file` and the field, also if the calibration is for another
/// net or batch.
Calibration calibration_from_json(const std::string& text, const std::string& file, const std::vector<Stage>& trunk,
                                  int batch);

}  // namespace convoy
