// The choice of the faster method of convolution on a device, pass by pass. It is timed once and remembered on disk.
#pragma once

#include "cl/convolution.hpp"

namespace convoy {

/// For each pass, whether it uses matrix products (CLBlast) instead of a direct convolution.
struct ClChoice {
  bool forward = false;
  bool input_gradient = false;
  bool filter_gradient = false;
  bool images = false;  ///< direct convolutions read images

  bool any() const { return forward || input_gradient || filter_gradient; }
};

/// Returns the choice that the settings demand. Where they leave it open, returns the method that was faster by a tenth
/// when timed on a few samples, now or in an earlier run, so that equal runs compute alike. Without CLBlast all passes
/// are direct; only GPUs read images.
ClChoice choose_convolutions(ClShared& shared, const ShardSpec& spec);

}  // namespace convoy
