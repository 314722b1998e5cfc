// What the members of a cluster were measured to do, as data: written by a run, read by whoever plans or simulates.
#pragma once

#include <string>
#include <vector>

#include "plan/profile.hpp"

namespace convoy {

struct Calibration {
  int batch = 0;                    ///< of all times
  std::vector<std::string> stages;  ///< names, in order
  MasterProfile master;
  std::vector<MemberProfile> members;
  double seconds_alone = 0.0;  ///< of a step on the master's machine by itself; 0: not measured
};

/// JSON as written to a run's calibration.json.
std::string to_json(const Calibration& calibration);
/// Throws Error naming `file` and the field, and where it is of another net or batch.
Calibration calibration_from_json(const std::string& text, const std::string& file, const std::vector<Stage>& trunk,
                                  int batch);

}  // namespace convoy
