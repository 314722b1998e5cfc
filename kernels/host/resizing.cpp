#include "kernels/host/resizing.hpp"

#include <algorithm>

namespace convoy {

template <class T>
ResizingLoops<T>::ResizingLoops(const Stage& stage)
    : linear_(stage.resizing.mode == Resizing::Mode::linear), width_(stage.width) {
  if (stage.kind != StageKind::resize) return;
  rows_ = elements_of(stage.resizing.mode, stage.resizing.rows, stage.height);
  columns_ = elements_of(stage.resizing.mode, stage.resizing.columns, stage.width);
}

/// Calls visit(made, element, weight) for every element `made` of the resized map and each element of the map from
/// which it is computed. With linear, all four elements are visited even if their weight is 0, so that a NaN spreads as
/// in PyTorch.
template <class T>
template <class Visit>
void ResizingLoops<T>::for_each_part(Visit visit) const {
  int made = 0;
  for (const Between& y : rows_) {
    for (const Between& x : columns_) {
      const int at = made++;
      if (y.first < 0 || x.first < 0) continue;
      if (!linear_) {
        visit(at, y.first * width_ + x.first, 1.0);
        continue;
      }
      visit(at, y.first * width_ + x.first, (1.0 - y.weight) * (1.0 - x.weight));
      visit(at, y.first * width_ + x.second, (1.0 - y.weight) * x.weight);
      visit(at, y.second * width_ + x.first, y.weight * (1.0 - x.weight));
      visit(at, y.second * width_ + x.second, y.weight * x.weight);
    }
  }
}

template <class T>
void ResizingLoops<T>::resize(const T* from, T* to) const {
  std::fill_n(to, rows_.size() * columns_.size(), T{0});
  for_each_part([&](int made, int element, double weight) { to[made] += static_cast<T>(weight) * from[element]; });
}

template <class T>
void ResizingLoops<T>::differentiate(const T* from, T* to) const {
  for_each_part([&](int made, int element, double weight) { to[element] += static_cast<T>(weight) * from[made]; });
}

template class ResizingLoops<float>;
template class ResizingLoops<double>;

}  // namespace convoy
