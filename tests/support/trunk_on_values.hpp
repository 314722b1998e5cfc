// A trunk whose input is given as floats, for comparisons with programs whose inputs are no pixels.
#pragma once

#include "tests/support/plain_trunk.hpp"

namespace convoy {

class TrunkOnValues : public PlainTrunk {
 public:
  using PlainTrunk::PlainTrunk;
  /// Computes on `values` whatever the images are.
  void begin(const Images&, const Pass& pass) override { PlainTrunk::begin(values, pass); }

  Tensor values;  ///< (batch, channels, height, width)
};

}  // namespace convoy
