// Layers that make maps of other rows and columns, as stages compute them.

#include "nets/graph/net.hpp"

namespace convoy {

Resizing resizing_of(const Upsampling& by, int height, int width) {
  const auto axis = [&](int factor, int extent) {
    const double step = 1.0 / factor;
    return Resizing::Axis{extent * factor, step, by.bilinear ? 0.5 * step - 0.5 : 0.0};
  };
  return {by.bilinear ? Resizing::Mode::linear : Resizing::Mode::nearest, axis(by.rows, height),
          axis(by.columns, width)};
}

Resizing spread_for(const TransposedConvolution& what, int height, int width) {
  const auto axis = [](int extent, int stride, int more) {
    return Resizing::Axis{(extent - 1) * stride + 1 + more, static_cast<double>(stride), 0.0};
  };
  return {Resizing::Mode::spread, axis(height, what.conv.stride_h, what.more_rows),
          axis(width, what.conv.stride_w, what.more_columns)};
}

/// A kernel reaches beyond its own element on both sides by its reach less 1. Of these rows and columns of zeros, the
/// padding leaves some out.
Convolution convolution_of(const TransposedConvolution& what) {
  Convolution conv = what.conv;
  const int rows = conv.reach_h() - 1;
  const int columns = conv.reach_w() - 1;
  conv.stride_h = 1;
  conv.stride_w = 1;
  conv.pad = {rows - conv.pad.top, columns - conv.pad.left, rows - conv.pad.bottom, columns - conv.pad.right};
  return conv;
}

std::vector<float> reordered(const std::vector<float>& weights, const WeightOrder& from) {
  const auto [groups, first, second, rows, columns] = from;
  std::vector<float> made(weights.size());
  std::size_t at = 0;
  for (int g = 0; g < groups; ++g) {
    for (int a = 0; a < first; ++a) {
      for (int b = 0; b < second; ++b) {
        const std::size_t window =
            (static_cast<std::size_t>(g) * static_cast<std::size_t>(second) + static_cast<std::size_t>(b)) *
                static_cast<std::size_t>(first) +
            static_cast<std::size_t>(a);
        const std::size_t size = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
        for (std::size_t i = 0; i < size; ++i) made[window * size + size - 1 - i] = weights[at++];
      }
    }
  }
  return made;
}

}  // namespace convoy
