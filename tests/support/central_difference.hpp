// Derivatives by differences, for checks of gradients.
#pragma once

namespace convoy {

/// Returns the central difference of loss() by one value, which it leaves as it was.
template <class Loss>
double central_difference(double& value, const Loss& loss) {
  constexpr double kStep = 1e-5;
  const double at = value;
  value = at + kStep;
  const double above = loss();
  value = at - kStep;
  const double below = loss();
  value = at;
  return (above - below) / (2 * kStep);
}

}  // namespace convoy
