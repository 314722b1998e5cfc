// The ways in which ONNX's Resize computes the places of rows and columns.
#pragma once

#include <string>
#include <vector>

#include "core/stage.hpp"

namespace convoy::onnx_file {

struct PlacesOfElements {
  std::string transformation;  ///< coordinate_transformation_mode
  std::string rounding;        ///< nearest_mode; empty for linear
  Resizing::Axis axis;         ///< the places that follow
};

/// Returns the ways that Convoy knows. `step` is the inverse of the scale between the extents `from` and `to`.
std::vector<PlacesOfElements> ways_to_place(Resizing::Mode mode, int from, int to, double step);

}  // namespace convoy::onnx_file
