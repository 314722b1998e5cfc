// Stages for tests of plans and task graphs.
#pragma once

#include "core/stage.hpp"

namespace convoy {

/// A convolution of 5 x 5 on square maps of `extent` x `extent`, with ReLU and a max pooling that halves the maps.
inline Stage pooled_stage(const char* name, int channels, int extent, int filters) {
  return {.name = name,
          .channels = channels,
          .height = extent,
          .width = extent,
          .conv = {.filters = filters, .kernel_h = 5, .kernel_w = 5, .pad = {2, 2, 2, 2}},
          .after = {Activation::relu, Pooling{}}};
}

}  // namespace convoy
