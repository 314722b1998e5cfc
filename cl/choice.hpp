// Which way of convolving is faster on a device, pass by pass: timed once, and remembered on disk.
#pragma once

#include "cl/convolution.hpp"

namespace convoy {

/// By pass: true where by products of matrices.
struct ClChoice {
  bool forward = false;
  bool input_gradient = false;
  bool filter_gradient = false;
  bool images = false;  ///< direct convolutions read images

  bool any() const { return forward || input_gradient || filter_gradient; }
};

/// As the settings ask; where they leave it open, what was faster by a tenth on some samples, now or in another run, so
/// that equal runs compute alike. Kernels of our own where there is no CLBlast; images only on GPUs.
ClChoice choose_convolutions(ClShared& shared, const ShardSpec& spec);

}  // namespace convoy
