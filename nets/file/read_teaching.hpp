// Reads the fields of `training:` that make a net part of an ensemble: the cycles of snapshots, and teachers.
#pragma once

#include "nets/file/fields.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// Reads `cycles`, which belongs to the schedule `snapshots`. Epochs, patience and schedule must have been read. Throws
/// Error.
void read_cycles(Fields& fields, TrainingOptions& options);

/// Reads `teacher`, `temperature` and `mix`. Throws Error.
Teaching read_teaching(Fields& fields);

}  // namespace convoy
