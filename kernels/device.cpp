#include "kernels/device.hpp"

namespace convoy {

double gradient_squares(const Shard& shard) {
  double sum = 0.0;
  for (const Tensor& gradient : shard.gradients()) sum += sum_of_squares(gradient.span());
  return sum;
}

}  // namespace convoy
