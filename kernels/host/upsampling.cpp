#include "kernels/host/upsampling.hpp"

namespace convoy {
namespace {

Between between(const Upsampling& by, int at, int factor, int extent) {
  return by.bilinear ? bilinear_at(at, factor, extent) : Between{at / factor, at / factor, 0.0};
}

/// Calls visit(large, small, weight) for every element of the larger map and each element of the smaller one that it is made
/// of. All four are visited even where a weight is 0, so that a NaN spreads as it does in PyTorch.
template <class Visit>
void for_each_part(const Upsampling& by, int height, int width, Visit visit) {
  int large = 0;
  for (int y = 0; y < height * by.rows; ++y) {
    const Between rows = between(by, y, by.rows, height);
    for (int x = 0; x < width * by.columns; ++x, ++large) {
      const Between columns = between(by, x, by.columns, width);
      if (!by.bilinear) {
        visit(large, rows.first * width + columns.first, 1.0);
        continue;
      }
      visit(large, rows.first * width + columns.first, (1.0 - rows.weight) * (1.0 - columns.weight));
      visit(large, rows.first * width + columns.second, (1.0 - rows.weight) * columns.weight);
      visit(large, rows.second * width + columns.first, rows.weight * (1.0 - columns.weight));
      visit(large, rows.second * width + columns.second, rows.weight * columns.weight);
    }
  }
}

}  // namespace

template <class T>
void enlarge(const Upsampling& by, int height, int width, const T* from, T* to) {
  const int values = height * by.rows * width * by.columns;
  for (int i = 0; i < values; ++i) to[i] = T{0};
  for_each_part(by, height, width,
                [&](int large, int small, double weight) { to[large] += static_cast<T>(weight) * from[small]; });
}

template <class T>
void enlarge_backward(const Upsampling& by, int height, int width, const T* from, T* to) {
  for_each_part(by, height, width,
                [&](int large, int small, double weight) { to[small] += static_cast<T>(weight) * from[large]; });
}

template void enlarge(const Upsampling&, int, int, const float*, float*);
template void enlarge(const Upsampling&, int, int, const double*, double*);
template void enlarge_backward(const Upsampling&, int, int, const float*, float*);
template void enlarge_backward(const Upsampling&, int, int, const double*, double*);

}  // namespace convoy
