// The work of one thread of each CUDA kernel (elements.hpp), for maps of other rows and columns.
#pragma once

#include "kernels/cuda/both.hpp"

namespace convoy::cuda {

/// What the elements of a resized row or column are made of (elements_of() in core/stage.hpp), as tables in device
/// memory.
struct ResizedAxis {
  int extent;        ///< of the map
  int result;        ///< of the resized map
  const int* first;  ///< -1 for a zero
  const int* second;
  const float* weight;  ///< of the second
  /// For each element of the map, the run of elements of the result outside of which none is made of it.
  const int* begin;
  const int* end;

  /// Returns the weight of element `at` of the map in element `made` of the result.
  CONVOY_BOTH float weight_of(int at, int made) const {
    return (first[made] == at ? 1.0F - weight[made] : 0.0F) + (second[made] == at ? weight[made] : 0.0F);
  }
  CONVOY_BOTH bool uses(int at, int made) const { return first[made] == at || second[made] == at; }
};

/// A shard's channels of a stage whose kind is resize.
struct ResizedMaps {
  int channels;  ///< of the input
  int first;     ///< the first channel of the shard
  int count;
  bool linear;
  ResizedAxis rows;
  ResizedAxis columns;
};

/// Input maps to the shard's resized maps.
struct Resize {
  ResizedMaps of;
  const float* input;
  float* maps;

  CONVOY_BOTH void operator()(int i) const {
    const ResizedAxis& rows = of.rows;
    const ResizedAxis& columns = of.columns;
    const int map = i / columns.result / rows.result;
    const float* from = input + static_cast<long>(map / of.count * of.channels + of.first + map % of.count) *
                                    rows.extent * columns.extent;
    const int y = i / columns.result % rows.result;
    const int x = i % columns.result;
    if (rows.first[y] < 0 || columns.first[x] < 0) {
      maps[i] = 0.0F;
      return;
    }
    const float* above = from + rows.first[y] * columns.extent;
    const int left = columns.first[x];
    if (!of.linear) {
      maps[i] = above[left];
      return;
    }
    const float* below = from + rows.second[y] * columns.extent;
    const int right = columns.second[x];
    const float down = rows.weight[y];
    const float across = columns.weight[x];
    maps[i] = (1.0F - down) * (1.0F - across) * above[left] + (1.0F - down) * across * above[right] +
              down * (1.0F - across) * below[left] + down * across * below[right];
  }
};

/// The gradient with respect to the input. It is 0 where the shard lacks the channel.
struct ResizeGradient {
  ResizedMaps of;
  const float* gradient;
  float* input_gradient;

  CONVOY_BOTH void operator()(int i) const {
    const ResizedAxis& rows = of.rows;
    const ResizedAxis& columns = of.columns;
    const int map = i / columns.extent / rows.extent;
    const int filter = map % of.channels - of.first;
    if (filter < 0 || filter >= of.count) {
      input_gradient[i] = 0.0F;
      return;
    }
    const float* from =
        gradient + static_cast<long>(map / of.channels * of.count + filter) * rows.result * columns.result;
    const int y = i / columns.extent % rows.extent;
    const int x = i % columns.extent;
    float sum = 0.0F;
    for (int made_y = rows.begin[y]; made_y < rows.end[y]; ++made_y) {
      if (!rows.uses(y, made_y)) continue;
      for (int made_x = columns.begin[x]; made_x < columns.end[x]; ++made_x) {
        if (!columns.uses(x, made_x)) continue;
        sum += rows.weight_of(y, made_y) * columns.weight_of(x, made_x) * from[made_y * columns.result + made_x];
      }
    }
    input_gradient[i] = sum;
  }
};

}  // namespace convoy::cuda
