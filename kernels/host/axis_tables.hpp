// The elements of resized rows or columns as tables, for devices whose kernels read them.
#pragma once

#include <vector>

#include "core/stage.hpp"

namespace convoy {

/// Says which elements of a map's row or column each element of the result is computed from (Between in
/// core/stage.hpp), and the other way round.
struct AxisTables {
  // by element of the result
  std::vector<int> first;  ///< -1 for a zero
  std::vector<int> second;
  std::vector<float> weight;  ///< of the second
  // by element of the map: the run of elements of the result outside of which none is computed from it
  std::vector<int> begin;
  std::vector<int> end;

  AxisTables(Resizing::Mode mode, const Resizing::Axis& axis, int extent)
      : begin(static_cast<std::size_t>(extent), 0), end(static_cast<std::size_t>(extent), 0) {
    for (const Between& each : elements_of(mode, axis, extent)) {
      const int made = static_cast<int>(first.size());
      first.push_back(each.first);
      second.push_back(each.second);
      weight.push_back(static_cast<float>(each.weight));
      for (const int at : {each.first, each.second}) {
        if (at < 0) continue;
        int& behind = end[at];
        if (behind == 0) begin[at] = made;
        behind = made + 1;
      }
    }
  }
};

}  // namespace convoy
