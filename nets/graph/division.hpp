// Which layers of a net become stages, and which ones heads compute.
#pragma once

#include <vector>

#include "nets/graph/net.hpp"

namespace convoy {

/// Whether heads have such a layer, too: a dense layer, flatten, activation, dropout or loss.
bool fits_head(const Layer& layer);

/// What the cut of a net needs to know of each layer.
struct Division {
  explicit Division(const Net& net);

  /// Whether a stage reads the layer, directly or through others. Dense layers among these become stages, too.
  std::vector<bool> before_stages;
  /// The extents of the layer's output, before anything flattened it.
  std::vector<FeatureShape> maps;
  std::vector<int> readers;  ///< the number of layers that read the layer
  bool has_trunk = false;    ///< else all layers belong to the head

  /// Returns the maps that the output of a layer consists of, be they flattened or not; those of the images for kNetInput.
  const FeatureShape& shape_of(int layer) const;

 private:
  const Net& net_;
};

}  // namespace convoy
