#include "kernels/host/im2col.hpp"

#include <algorithm>

namespace convoy {
namespace {

/// A stretch of a matrix row: the windows of one output row, at one place of the kernel. Its windows from first to
/// before last read the image, and the others the padding.
struct Stretch {
  long start;  ///< of the stretch in the matrix
  long image;  ///< the element of the image that window 0 would read
  int first;
  int last;
};

/// Calls work(stretch) for every stretch of the matrix, in its order.
template <class Work>
void for_each_stretch(const Stage& stage, Work work) {
  const Convolution& conv = stage.conv;
  const Shape out = conv_shape(stage, 1, 1);
  // The first of the windows that reads the column x or one to its right.
  const auto window_from = [&](int x) { return std::clamp((x + conv.stride_w - 1) / conv.stride_w, 0, out.w); };
  long start = 0;
  for (int c = 0; c < stage.channels; ++c) {
    for (int r = 0; r < conv.kernel_h; ++r) {
      for (int s = 0; s < conv.kernel_w; ++s) {
        const int left = s * conv.dilation_w - conv.pad.left;  // the column that window 0 would read
        const int first = window_from(std::max(0, -left));
        const int last = std::max(first, window_from(std::max(0, stage.width - left)));
        for (int oy = 0; oy < out.h; ++oy, start += out.w) {
          const int y = oy * conv.stride_h - conv.pad.top + r * conv.dilation_h;
          const bool inside = y >= 0 && y < stage.height;
          const long image = (static_cast<long>(c) * stage.height + y) * stage.width + left;
          work(inside ? Stretch{start, image, first, last} : Stretch{start, 0, 0, 0});
        }
      }
    }
  }
}

}  // namespace

void im2col(const Stage& stage, const float* image, float* columns) {
  const int width = conv_shape(stage, 1, 1).w;
  const int stride = stage.conv.stride_w;
  for_each_stretch(stage, [&](const Stretch& stretch) {
    float* to = columns + stretch.start;
    std::fill(to, to + stretch.first, 0.0F);
    if (stride == 1) {
      std::copy_n(image + (stretch.image + stretch.first), stretch.last - stretch.first, to + stretch.first);
    } else {
      for (int ox = stretch.first; ox < stretch.last; ++ox) to[ox] = image[stretch.image + ox * stride];
    }
    std::fill(to + stretch.last, to + width, 0.0F);
  });
}

void col2im(const Stage& stage, const float* columns, float* image) {
  const int stride = stage.conv.stride_w;
  for_each_stretch(stage, [&](const Stretch& stretch) {
    const float* from = columns + stretch.start;
    for (int ox = stretch.first; ox < stretch.last; ++ox) image[stretch.image + ox * stride] += from[ox];
  });
}

}  // namespace convoy
