// Windows over maps, for the work of one thread of a CUDA kernel (elements.hpp).
#pragma once

#include "kernels/cuda/both.hpp"

namespace convoy::cuda {

/// A sliding window of a convolution or of pooling, over maps of height x width, with out_height x out_width places.
struct Window {
  int height;
  int width;
  int out_height;
  int out_width;
  int kernel_h;
  int kernel_w;
  int stride_h;
  int stride_w;
  int top;
  int left;
  int dilation_h;
  int dilation_w;

  /// Return the rows and columns from the first to the last element under the window.
  CONVOY_BOTH int reach_h() const { return (kernel_h - 1) * dilation_h + 1; }
  CONVOY_BOTH int reach_w() const { return (kernel_w - 1) * dilation_w + 1; }
};

/// The window positions first .. last - 1 that cover a row or column.
struct Cover {
  int first;
  int last;
};

CONVOY_BOTH inline int smaller(int a, int b) { return a < b ? a : b; }
CONVOY_BOTH inline int larger(int a, int b) { return a > b ? a : b; }

CONVOY_BOTH inline Cover cover(int position, int before, int kernel, int stride, int positions) {
  const int reach = position + before;
  return {reach < kernel ? 0 : (reach - kernel) / stride + 1, smaller(reach / stride + 1, positions)};
}

/// Returns the row or column of a window that reads the element `reach` behind the window's first; -1 if none does.
CONVOY_BOTH inline int tap_at(int reach, int dilation) {
  if (dilation == 1) return reach;
  const int tap = reach / dilation;
  return tap * dilation == reach ? tap : -1;
}

/// Returns the rows or columns first .. last - 1 of a window that lie inside the map; the window starts at `start`.
CONVOY_BOTH inline Cover taps_inside(int start, int kernel, int dilation, int extent) {
  if (dilation == 1) return {start < 0 ? -start : 0, smaller(kernel, extent - start)};
  return {start < 0 ? (dilation - 1 - start) / dilation : 0,
          smaller(kernel, start < extent ? (extent - start + dilation - 1) / dilation : 0)};
}

/// Returns the rows or columns first, first + dilation, ... below `last` of the map under a window.
CONVOY_BOTH inline Cover inside(int position, int before, int kernel, int stride, int extent, int dilation = 1) {
  const int start = position * stride - before;
  const int reach = (kernel - 1) * dilation + 1;
  if (dilation == 1 || start >= 0) return {larger(start, 0), smaller(start + reach, extent)};
  return {(dilation - -start % dilation) % dilation, smaller(start + reach, extent)};
}

/// Element i of maps: its place in its map, and the window positions that cover it.
struct MapElement {
  int map;
  int y;
  int x;
  Cover rows;
  Cover across;
};

CONVOY_BOTH inline MapElement element_of(const Window& w, int i) {
  const int x = i % w.width;
  const int y = i / w.width % w.height;
  return {i / (w.width * w.height), y, x, cover(y, w.top, w.reach_h(), w.stride_h, w.out_height),
          cover(x, w.left, w.reach_w(), w.stride_w, w.out_width)};
}

/// Place i of pooled maps: the first element of its input map, and the rows and columns under its window, which are as
/// far apart as its dilation says.
struct Place {
  int map;
  Cover rows;
  Cover across;
};

CONVOY_BOTH inline Place place_of(const Window& w, int i) {
  return {i / (w.out_width * w.out_height) * (w.height * w.width),
          inside(i / w.out_width % w.out_height, w.top, w.kernel_h, w.stride_h, w.height, w.dilation_h),
          inside(i % w.out_width, w.left, w.kernel_w, w.stride_w, w.width, w.dilation_w)};
}

}  // namespace convoy::cuda
