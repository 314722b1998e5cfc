// The values of a net whose first dense layer is cut along its inputs (nets/graph/dense_slices.hpp).
#pragma once

#include "model/checkpoint.hpp"
#include "nets/graph/dense_slices.hpp"

namespace convoy {

/// Returns the model of the whole net in the form of the net with slices: weights (units, inputs) become weights
/// (units, channels, rows, columns) of each slice. Both forms have the same values; the same holds for the moments.
ModelState sliced(const ModelState& whole, const DenseSlices& slices);
/// Returns the model of the net with slices in the form of the whole net.
ModelState joined(const ModelState& sliced, const DenseSlices& slices);

}  // namespace convoy
