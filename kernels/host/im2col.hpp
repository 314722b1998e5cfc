// im2col and col2im, which turn a convolution into a matrix product.
#pragma once

#include "core/stage.hpp"

namespace convoy {

/// Writes one sample (channels, height, width) as a row-major matrix of channels * kernel_h * kernel_w rows, one for
/// each weight of a filter, by output rows * output columns columns. Elements are zero where a window reaches into the
/// padding.
void im2col(const Stage& stage, const float* image, float* columns);
/// The reverse for gradients: adds every element of the matrix to the element of `image` that im2col read it from. The
/// caller must set `image` to zero.
void col2im(const Stage& stage, const float* columns, float* image);

}  // namespace convoy
