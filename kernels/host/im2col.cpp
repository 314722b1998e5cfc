#include "kernels/host/im2col.hpp"

#include <algorithm>

namespace convoy {
namespace {

/// Calls row(start, image_row, first_column) for every output row of every matrix row: `start` is the offset of the
/// stretch in the matrix, `image_row` the offset of the input row in the image or -1 where it lies in the padding,
/// `first_column` the input column of the first element.
template <class Row>
void for_each_row(const Stage& stage, Row row) {
  const Convolution& conv = stage.conv;
  const Shape out = conv_shape(stage, 1, 1);
  int matrix_row = 0;
  for (int c = 0; c < stage.channels; ++c) {
    for (int r = 0; r < conv.kernel_h; ++r) {
      for (int s = 0; s < conv.kernel_w; ++s, ++matrix_row) {
        for (int oy = 0; oy < out.h; ++oy) {
          const int y = oy * conv.stride_h - conv.pad.top + r;
          const bool inside = y >= 0 && y < stage.height;
          const long start = static_cast<long>(matrix_row) * out.h * out.w + static_cast<long>(oy) * out.w;
          row(start, inside ? (static_cast<long>(c) * stage.height + y) * stage.width : -1, s - conv.pad.left);
        }
      }
    }
  }
}

}  // namespace

void im2col(const Stage& stage, const float* image, float* columns) {
  const int width = conv_shape(stage, 1, 1).w;
  const int stride = stage.conv.stride_w;
  for_each_row(stage, [&](long start, long image_row, int first) {
    float* to = columns + start;
    if (image_row < 0) {
      std::fill_n(to, width, 0.0F);
      return;
    }
    for (int ox = 0; ox < width; ++ox) {
      const int x = first + ox * stride;
      to[ox] = x >= 0 && x < stage.width ? image[image_row + x] : 0.0F;
    }
  });
}

void col2im(const Stage& stage, const float* columns, float* image) {
  const int width = conv_shape(stage, 1, 1).w;
  const int stride = stage.conv.stride_w;
  for_each_row(stage, [&](long start, long image_row, int first) {
    if (image_row < 0) return;
    const float* from = columns + start;
    for (int ox = 0; ox < width; ++ox) {
      const int x = first + ox * stride;
      if (x >= 0 && x < stage.width) image[image_row + x] += from[ox];
    }
  });
}

}  // namespace convoy
