// Group norm of one sample as plain loops over NCHW maps.
#pragma once

#include <vector>

#include "core/stage.hpp"

namespace convoy {

/// The group norm of a shard, which reads all channels of the groups of its filters. Statistics are summed in double.
template <class T>
class GroupNormLoops {
 public:
  GroupNormLoops(const Stage& stage, FilterRange filters)
      : norm_(stage.group_norm),
        filters_(filters),
        group_(norm_.groups > 0 ? stage.channels / norm_.groups : stage.channels),
        map_(static_cast<std::size_t>(stage.height) * static_cast<std::size_t>(stage.width)) {}

  /// Computes the shard's maps, (filters, rows, columns), from all channels of the input.
  void normalise(const T* input, T* maps) const;
  /// Adds the gradient with respect to the input, of all channels of the groups, that the shard's maps have with the
  /// gradient `gradient`. Parts of shards that share a group add up to the whole gradient.
  void differentiate(const T* input, const T* gradient, T* input_gradient) const;

 private:
  /// Mean and inverse standard deviation of a set of values: one of each for a group, or for each of its positions.
  struct Moments {
    std::vector<double> mean;
    std::vector<double> inverse;
  };
  struct Group {
    FilterRange channels;  ///< all of the group
    FilterRange filters;   ///< the shard's filters
  };
  std::vector<Group> groups() const;
  std::size_t sets() const { return norm_.by_position ? map_ : 1; }
  /// The number of values of which a mean is taken.
  double count() const { return static_cast<double>(group_) * static_cast<double>(norm_.by_position ? 1 : map_); }
  Moments moments_of(const T* group) const;
  /// Adds value(e) of each element e of a map to the sum of its set.
  template <class Value>
  void add_map(std::vector<double>& sums, Value value) const;

  GroupNorm norm_;
  FilterRange filters_;
  int group_;        ///< channels of a group
  std::size_t map_;  ///< values of a channel
};

}  // namespace convoy
