#include "model/valid_values.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace convoy {

void require_valid(const std::string& file, const std::string& tensor, std::span<const float> values) {
  const bool squares = tensor.ends_with(".running_var") || tensor.ends_with(".squares");
  const auto bad =
      std::ranges::find_if(values, [&](float value) { return !std::isfinite(value) || (squares && value < 0.0F); });
  if (bad == values.end()) return;
  fail(
      "{}: value {} of tensor {} is {}, but {}; the training that made these weights diverged, or the file is damaged: "
      "take weights of an earlier epoch, or train anew",
      file, bad - values.begin(), tensor, *bad,
      std::isfinite(*bad) ? "no variance or mean of squares is negative" : "weights must be finite numbers");
}

}  // namespace convoy
