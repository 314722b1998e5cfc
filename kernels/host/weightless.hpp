// Stages without a convolution, by plain loops over NCHW: channels that pass as they are, and response norm.
#pragma once

#include <vector>

#include "core/stage.hpp"
#include "core/tensor.hpp"

namespace convoy {

/// For one shard. Samples are independent, so that callers may run ranges of them on several threads.
template <class T>
class Weightless {
 public:
  Weightless(const Stage& stage, FilterRange filters, int batch);

  /// Samples of the input, all its channels, to those of the maps of the shard's filters.
  void forward(const BasicTensor<T>& input, SampleRange samples, BasicTensor<T>& maps);
  /// From the gradient by the maps to that by the input, which is 0 for channels that the shard does not read.
  void backward(const BasicTensor<T>& input, const BasicTensor<T>& gradient, SampleRange samples,
                BasicTensor<T>& input_gradient) const;

 private:
  /// Channels around one, within the input's.
  FilterRange around(int channel) const;
  void normalise(const BasicTensor<T>& input, int sample, BasicTensor<T>& maps);
  void normalise_backward(const BasicTensor<T>& input, const BasicTensor<T>& gradient, int sample,
                          BasicTensor<T>& input_gradient) const;

  Stage stage_;
  FilterRange filters_;
  BasicTensor<T> bases_;  ///< of response norm: what is raised to the power of -beta
};

}  // namespace convoy
