// Upsampling of one map as plain loops.
#pragma once

#include "core/stage.hpp"

namespace convoy {

/// Computes a map of (height * by.rows, width * by.columns) from one of (height, width).
template <class T>
void enlarge(const Upsampling& by, int height, int width, const T* from, T* to);
/// Adds the gradient with respect to the smaller map to `to`, from the gradient `from` with respect to the larger one.
template <class T>
void enlarge_backward(const Upsampling& by, int height, int width, const T* from, T* to);

}  // namespace convoy
