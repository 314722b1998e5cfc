// The types of layers in net files, and their fields.
#pragma once

#include <vector>

#include "nets/file/fields.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

struct LayerType {
  const char* name;
  /// Reads the fields of the type. Sets `same` for a window whose padding is `same`, which its input decides.
  LayerSpec (*read)(Fields& fields, bool& same);
};

const std::vector<LayerType>& layer_types();

/// Stands for as many groups as the input has channels, until the input is known.
inline constexpr int kGroupOfEachChannel = 0;

// Numbers of a Resizing that stand for others until the input is known.

inline constexpr int kExtentOfStep = 0;         ///< the input's extent divided by the step
inline constexpr double kStepOfExtents = -1.0;  ///< the input's extent divided by the result's
inline constexpr double kStepOfCorners = -2.0;  ///< so that the first and last elements of both are at the same places
inline constexpr double kStartOfCentres = -1e300;  ///< so that the outer edges of both are at the same places

}  // namespace convoy
