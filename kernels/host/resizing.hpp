// The resizing of one map, as plain loops.
#pragma once

#include <vector>

#include "core/stage.hpp"

namespace convoy {

/// Computes maps with other rows and columns, as the stage's Resizing describes.
template <class T>
class ResizingLoops {
 public:
  /// For a stage of another kind than resize, the object has no tables.
  explicit ResizingLoops(const Stage& stage);

  /// Computes the resized map `to` from the map `from`.
  void resize(const T* from, T* to) const;
  /// Adds to `to` the gradient with respect to the map, from the gradient `from` with respect to the resized map.
  void differentiate(const T* from, T* to) const;

 private:
  template <class Visit>
  void for_each_part(Visit visit) const;

  bool linear_;
  int width_;  ///< columns of the map
  std::vector<Between> rows_;
  std::vector<Between> columns_;
};

}  // namespace convoy
