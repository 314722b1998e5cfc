// How the outputs of several nets become those of an ensemble.
#pragma once

#include <cstdint>

namespace convoy {

/// With p_i the softmax of the outputs of member i of M.
enum class Combination : std::uint8_t {
  probabilities,  ///< the mean of p_i
  logits,         ///< the mean of the outputs themselves
  /// Each member's vote for its largest output, and as one more vote the mean of p_i, which decides ties; divided by
  /// M + 1.
  votes
};

}  // namespace convoy
