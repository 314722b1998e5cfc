// A trunk whose input is given as floats, for comparisons with programs whose inputs are no pixels.
#pragma once

#include "train/local_trunk.hpp"

namespace convoy {

class TrunkOnValues : public LocalTrunk {
 public:
  using LocalTrunk::LocalTrunk;
  /// Computes on `values` whatever the images are.
  void begin(const Images&, const Pass& pass) override { LocalTrunk::begin(values, pass); }

  Tensor values;  ///< (batch, channels, height, width)
};

}  // namespace convoy
