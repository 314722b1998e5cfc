#include "kernels/host/group_norm.hpp"

#include <cmath>

namespace convoy {

template <class T>
std::vector<typename GroupNormLoops<T>::Group> GroupNormLoops<T>::groups() const {
  std::vector<Group> all;
  const int behind = filters_.first + filters_.count;
  for (int first = filters_.first / group_ * group_; first < behind; first += group_) {
    const FilterRange channels{first, group_};
    all.push_back({channels, common(channels, filters_)});
  }
  return all;
}

template <class T>
template <class Value>
void GroupNormLoops<T>::add_map(std::vector<double>& sums, Value value) const {
  if (norm_.by_position) {
    for (std::size_t e = 0; e < map_; ++e) sums[e] += value(e);
    return;
  }
  double sum = 0.0;
  for (std::size_t e = 0; e < map_; ++e) sum += value(e);
  sums[0] += sum;
}

/// Finds the moments of a group whose first channel is at `group`. Two passes keep the variance exact.
template <class T>
typename GroupNormLoops<T>::Moments GroupNormLoops<T>::moments_of(const T* group) const {
  Moments found{std::vector<double>(sets()), std::vector<double>(sets())};
  for (int c = 0; c < group_; ++c) {
    const T* x = group + static_cast<std::size_t>(c) * map_;
    add_map(found.mean, [&](std::size_t e) { return static_cast<double>(x[e]); });
  }
  for (double& mean : found.mean) mean /= count();
  for (int c = 0; c < group_; ++c) {
    const T* x = group + static_cast<std::size_t>(c) * map_;
    add_map(found.inverse, [&](std::size_t e) {
      const double distance = static_cast<double>(x[e]) - found.mean[norm_.by_position ? e : 0];
      return distance * distance;
    });
  }
  for (double& each : found.inverse) each = 1.0 / std::sqrt(each / count() + static_cast<double>(norm_.epsilon));
  return found;
}

template <class T>
void GroupNormLoops<T>::normalise(const T* input, T* maps) const {
  for (const Group& group : groups()) {
    const auto [mean, inverse] = moments_of(input + static_cast<std::size_t>(group.channels.first) * map_);
    for (int f = group.filters.first; f < group.filters.first + group.filters.count; ++f) {
      const T* x = input + static_cast<std::size_t>(f) * map_;
      T* y = maps + static_cast<std::size_t>(f - filters_.first) * map_;
      for (std::size_t e = 0; e < map_; ++e) {
        const std::size_t set = norm_.by_position ? e : 0;
        y[e] = static_cast<T>((static_cast<double>(x[e]) - mean[set]) * inverse[set]);
      }
    }
  }
}

/// With y the normalised values of a set of m, dx = inverse (dy - sum(dy) / m - y sum(dy y) / m). The sums go over the
/// shard's filters, because dy of the others belongs to other shards.
template <class T>
void GroupNormLoops<T>::differentiate(const T* input, const T* gradient, T* input_gradient) const {
  for (const Group& group : groups()) {
    const auto [mean, inverse] = moments_of(input + static_cast<std::size_t>(group.channels.first) * map_);
    std::vector<double> sums(sets());
    std::vector<double> products(sets());
    for (int f = group.filters.first; f < group.filters.first + group.filters.count; ++f) {
      const T* x = input + static_cast<std::size_t>(f) * map_;
      const T* dy = gradient + static_cast<std::size_t>(f - filters_.first) * map_;
      add_map(sums, [&](std::size_t e) { return static_cast<double>(dy[e]); });
      add_map(products, [&, &mean = mean, &inverse = inverse](std::size_t e) {
        const std::size_t set = norm_.by_position ? e : 0;
        return static_cast<double>(dy[e]) * (static_cast<double>(x[e]) - mean[set]) * inverse[set];
      });
    }
    for (int c = group.channels.first; c < group.channels.first + group.channels.count; ++c) {
      const T* x = input + static_cast<std::size_t>(c) * map_;
      T* dx = input_gradient + static_cast<std::size_t>(c) * map_;
      const bool own = common({c, 1}, group.filters).count > 0;
      const T* dy = own ? gradient + static_cast<std::size_t>(c - filters_.first) * map_ : nullptr;
      for (std::size_t e = 0; e < map_; ++e) {
        const std::size_t set = norm_.by_position ? e : 0;
        const double y = (static_cast<double>(x[e]) - mean[set]) * inverse[set];
        const double slope = own ? static_cast<double>(dy[e]) : 0.0;
        dx[e] += static_cast<T>(inverse[set] * (slope - (sums[set] + y * products[set]) / count()));
      }
    }
  }
}

template class GroupNormLoops<float>;
template class GroupNormLoops<double>;

}  // namespace convoy
