// The work of one thread of each CUDA kernel (elements.hpp), for upsampling.
#pragma once

#include "kernels/cuda/both.hpp"

namespace convoy::cuda {

/// A shard's channels of a stage whose kind is upsample, with the factors of Upsampling (core/stage.hpp).
struct Enlargement {
  int channels;  ///< of the input
  int first;     ///< the first channel of the shard
  int count;
  int height;  ///< of the smaller maps
  int width;
  int rows;  ///< factor of the height
  int columns;
  bool bilinear;
};

/// The smaller map's two elements along an axis between which element `at` of the larger map lies (bilinear_at()).
struct Neighbours {
  int first;
  int second;
  float weight;  ///< of the second

  /// Returns the weight of an element.
  CONVOY_BOTH float of(int element) const {
    return (element == first ? 1.0F - weight : 0.0F) + (element == second ? weight : 0.0F);
  }
};

CONVOY_BOTH inline Neighbours neighbours(bool bilinear, int at, int factor, int extent) {
  if (!bilinear) return {at / factor, at / factor, 0.0F};
  // The place is (2 at + 1 - factor) / (2 factor), in whole numbers so that it is exact.
  const int twice = 2 * at + 1 - factor;
  const int place = twice < 0 ? 0 : twice;
  const int first = place / (2 * factor);
  return {first, first + 1 < extent ? first + 1 : extent - 1,
          static_cast<float>(place - first * 2 * factor) / static_cast<float>(2 * factor)};
}

/// Input maps to the shard's larger maps.
struct Enlarge {
  Enlargement of;
  const float* input;
  float* maps;

  CONVOY_BOTH void operator()(int i) const {
    const int out_width = of.width * of.columns;
    const int out_height = of.height * of.rows;
    const int map = i / out_width / out_height;
    const float* from =
        input + static_cast<long>(map / of.count * of.channels + of.first + map % of.count) * of.height * of.width;
    const Neighbours y = neighbours(of.bilinear, i / out_width % out_height, of.rows, of.height);
    const Neighbours x = neighbours(of.bilinear, i % out_width, of.columns, of.width);
    if (!of.bilinear) {
      maps[i] = from[y.first * of.width + x.first];
      return;
    }
    const float* above = from + y.first * of.width;
    const float* below = from + y.second * of.width;
    maps[i] = (1.0F - y.weight) * (1.0F - x.weight) * above[x.first] + (1.0F - y.weight) * x.weight * above[x.second] +
              y.weight * (1.0F - x.weight) * below[x.first] + y.weight * x.weight * below[x.second];
  }
};

/// The gradient with respect to the input. It is 0 where the shard lacks the channel.
struct EnlargeGradient {
  Enlargement of;
  const float* gradient;
  float* input_gradient;

  CONVOY_BOTH void operator()(int i) const {
    const int map = i / of.width / of.height;
    const int filter = map % of.channels - of.first;
    if (filter < 0 || filter >= of.count) {
      input_gradient[i] = 0.0F;
      return;
    }
    const int out_width = of.width * of.columns;
    const int out_height = of.height * of.rows;
    const float* from = gradient + static_cast<long>(map / of.channels * of.count + filter) * out_width * out_height;
    const int y = i / of.width % of.height;
    const int x = i % of.width;
    // The larger map's elements that may have a part of this one: with bilinear, those of its neighbours too.
    const int around = of.bilinear ? 1 : 0;
    const int first_y = (y - around) * of.rows < 0 ? 0 : (y - around) * of.rows;
    const int first_x = (x - around) * of.columns < 0 ? 0 : (x - around) * of.columns;
    float sum = 0.0F;
    for (int oy = first_y; oy < (y + around + 1) * of.rows && oy < out_height; ++oy) {
      const Neighbours in_y = neighbours(of.bilinear, oy, of.rows, of.height);
      if (y != in_y.first && y != in_y.second) continue;
      for (int ox = first_x; ox < (x + around + 1) * of.columns && ox < out_width; ++ox) {
        const Neighbours in_x = neighbours(of.bilinear, ox, of.columns, of.width);
        if (x != in_x.first && x != in_x.second) continue;
        sum += in_y.of(y) * in_x.of(x) * from[oy * out_width + ox];
      }
    }
    input_gradient[i] = sum;
  }
};

}  // namespace convoy::cuda
