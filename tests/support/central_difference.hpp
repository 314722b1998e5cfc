// Derivatives by differences, for checks of gradients.
#pragma once

namespace convoy {

/// Returns the central difference of loss() by one value. The function restores the value.
template <class Loss>
double central_difference(double& value, const Loss& loss, double step = 1e-5) {
  const double at = value;
  value = at + step;
  const double above = loss();
  value = at - step;
  const double below = loss();
  value = at;
  return (above - below) / (2.0 * step);
}

}  // namespace convoy
