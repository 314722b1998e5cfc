// Compares and fills the states of shards.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/shard_state.hpp"

namespace convoy {

/// All tensors of a state, in order.
template <class State>
auto tensors_of(State& state) {
  std::vector<decltype(&state.parameters.front().value)> tensors;
  for_each_tensor(state, [&](auto& tensor) { tensors.push_back(&tensor); });
  return tensors;
}

inline bool same_bits(const ShardState& a, const ShardState& b) {
  return std::ranges::equal(tensors_of(a), tensors_of(b), [](const Tensor* x, const Tensor* y) {
    return x->shape() == y->shape() && std::ranges::equal(x->span(), y->span());
  });
}

inline void expect_near(const ShardState& a, const ShardState& b, double tolerance) {
  const std::vector<const Tensor*> got = tensors_of(a);
  const std::vector<const Tensor*> expected = tensors_of(b);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t t = 0; t < got.size(); ++t) {
    ASSERT_EQ(got[t]->shape(), expected[t]->shape());
    for (std::size_t i = 0; i < got[t]->size(); ++i) {
      ASSERT_NEAR(got[t]->data()[i], expected[t]->data()[i], tolerance) << "tensor " << t << ", value " << i;
    }
  }
}

/// Each tensor's difference has at most `fraction` of the tensor's norm. A ReLU that another rounding turns on or off
/// moves single values of a gradient far, but hardly its norm.
inline void expect_near_in_norm(const ShardState& a, const ShardState& b, double fraction) {
  const std::vector<const Tensor*> got = tensors_of(a);
  const std::vector<const Tensor*> expected = tensors_of(b);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t t = 0; t < got.size(); ++t) {
    ASSERT_EQ(got[t]->shape(), expected[t]->shape());
    double difference = 0.0;
    double norm = 0.0;
    for (std::size_t i = 0; i < got[t]->size(); ++i) {
      difference += std::pow(double{got[t]->data()[i]} - double{expected[t]->data()[i]}, 2);
      norm += std::pow(double{expected[t]->data()[i]}, 2);
    }
    ASSERT_LE(std::sqrt(difference), fraction * std::sqrt(norm)) << "tensor " << t;
  }
}

}  // namespace convoy
