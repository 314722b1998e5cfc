// The nets in nets/ at sizes for tests, and the distance between two tensors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/random.hpp"
#include "core/shard_state.hpp"
#include "nets/graph/net.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {

struct Shipped {
  std::string name;
  Overrides set;
  int batch = 2;

  Net read() const { return read_net(source_folder() + "/nets/" + name + ".yaml", set); }
};

inline void PrintTo(const Shipped& shipped, std::ostream* out) { *out << shipped.name; }

inline const auto kShippedNets = testing::Values(Shipped{"lenet", {}}, Shipped{"lenet-tanh", {}}, Shipped{"glyphs", {}},
                                                 Shipped{"cifar10-50-500", {}}, Shipped{"resnet20", {}},
                                                 Shipped{"resnet34", {"input.height=48", "input.width=48"}},
                                                 Shipped{"resnet34-padded", {"input.height=48", "input.width=48"}},
                                                 Shipped{"alexnet", {"input.height=67", "input.width=67"}},
                                                 Shipped{"mobilenet", {"input.height=96", "input.width=96"}, 4},
                                                 Shipped{"squeezenet", {"input.height=64", "input.width=64"}},
                                                 Shipped{"googlenet", {"input.height=80", "input.width=80"}},
                                                 Shipped{"vgg16e", {"input.height=32", "input.width=32"}});

inline std::string test_name(const testing::TestParamInfo<Shipped>& info) {
  std::string name = info.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

/// Adds random values to the biases, which are 0 initially. With biases of 0, the batch norms around a depthwise
/// convolution cancel each other's weights, and the gradients by these weights would be rounding errors only.
inline std::vector<ShardState> off_zero(std::vector<ShardState> states) {
  std::uint64_t stream = 300;
  for (ShardState& state : states) {
    for (Parameter& parameter : state.parameters) {
      if (parameter.value.shape().sample_size() != 1 || parameter.moments.empty()) continue;
      Random random(3, ++stream);
      for (float& value : parameter.value.span()) value += random.uniform(-0.25F, 0.25F);
    }
  }
  return states;
}

/// The norm of the difference of two tensors, relative to the norm of the second.
inline double distance(const Tensor& a, const Tensor& b) {
  Tensor difference = a;
  for (std::size_t i = 0; i < a.size(); ++i) difference.data()[i] -= b.data()[i];
  return std::sqrt(sum_of_squares(std::as_const(difference).span())) / (std::sqrt(sum_of_squares(b.span())) + 1e-6);
}

}  // namespace convoy
