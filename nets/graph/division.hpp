// The division of a net's layers into layers of stages and layers of heads.
#pragma once

#include <vector>

#include "nets/graph/net.hpp"

namespace convoy {

/// Returns whether a head can compute the layer: a dense layer, a flatten, an activation, a dropout or a loss.
bool fits_head(const Layer& layer);

/// The facts about each layer that the cut of a net needs.
struct Division {
  explicit Division(const Net& net);

  /// Whether a stage or several layers read the layer, directly or through other layers. Such a dense layer becomes a
  /// stage.
  std::vector<bool> before_stages;
  /// The extents of the layer's output, before a flatten.
  std::vector<FeatureShape> maps;
  std::vector<int> readers;  ///< the number of layers that read the layer
  bool has_trunk = false;    ///< whether the net has stages; otherwise all layers belong to the head

  /// Returns the extents of the maps that the output of a layer consists of, flattened or not. For kNetInput they are
  /// those of the images.
  const FeatureShape& shape_of(int layer) const;

 private:
  const Net& net_;
};

}  // namespace convoy
