// Resizing of one map as plain loops.
#pragma once

#include <vector>

#include "core/stage.hpp"

namespace convoy {

/// Makes maps of other rows and columns, as a Resizing says.
template <class T>
class ResizingLoops {
 public:
  /// A stage of another kind needs no tables, and gets none.
  explicit ResizingLoops(const Stage& stage);

  /// Computes a resized map `to` from the map `from`.
  void resize(const T* from, T* to) const;
  /// Adds the gradient with respect to the map to `to`, from the gradient `from` with respect to the resized one.
  void differentiate(const T* from, T* to) const;

 private:
  template <class Visit>
  void for_each_part(Visit visit) const;

  bool linear_;
  int width_;  ///< of the map
  std::vector<Between> rows_;
  std::vector<Between> columns_;
};

}  // namespace convoy
