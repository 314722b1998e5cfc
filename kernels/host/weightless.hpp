// Stages without a convolution as plain loops over NCHW tensors: the identity, a shuffle of channels, response norm,
// group norm and resizing.
#pragma once

#include <vector>

#include "core/stage.hpp"
#include "core/tensor.hpp"
#include "kernels/host/group_norm.hpp"
#include "kernels/host/resizing.hpp"

namespace convoy {

/// The computation of one shard. Samples are independent, so callers may run ranges of samples on several threads.
template <class T>
class Weightless {
 public:
  Weightless(const Stage& stage, FilterRange filters, int batch);

  /// Computes `samples` of the maps of the shard's filters from the same samples of the input, which has all channels.
  void forward(const BasicTensor<T>& input, SampleRange samples, BasicTensor<T>& maps);
  /// Computes the gradient with respect to the input from the gradient with respect to the maps. It is zero for
  /// channels that the shard does not read.
  void backward(const BasicTensor<T>& input, const BasicTensor<T>& gradient, SampleRange samples,
                BasicTensor<T>& input_gradient) const;

 private:
  /// Returns the number of values of one channel of one sample.
  std::size_t map() const { return static_cast<std::size_t>(stage_.height) * static_cast<std::size_t>(stage_.width); }
  /// Returns the channels in the window around one channel, clipped to the input's channels.
  FilterRange around(int channel) const;
  void shuffle(const BasicTensor<T>& input, int sample, BasicTensor<T>& maps) const;
  void shuffle_backward(const BasicTensor<T>& gradient, int sample, BasicTensor<T>& input_gradient) const;
  void normalise(const BasicTensor<T>& input, int sample, BasicTensor<T>& maps);
  void normalise_backward(const BasicTensor<T>& input, const BasicTensor<T>& gradient, int sample,
                          BasicTensor<T>& input_gradient) const;

  Stage stage_;
  FilterRange filters_;
  GroupNormLoops<T> groups_;
  ResizingLoops<T> sizes_;
  BasicTensor<T> bases_;  ///< response norm: the numbers that are raised to the power of -beta
};

}  // namespace convoy
