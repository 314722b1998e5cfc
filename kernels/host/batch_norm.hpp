// Batch norm as plain loops over NCHW tensors, channel by channel.
#pragma once

#include <vector>

#include "kernels/host/host_tensor.hpp"

namespace convoy {

/// One batch norm of a shard. `x` and `y` are its input and output, `dy` and `dx` the gradients with respect to them;
/// all have the shard's samples. Channels are independent, so callers may run them on several threads.
template <class T>
class HostBatchNorm {
 public:
  /// The mean of a channel, and the mean of the squares of the distances from it.
  struct Moments {
    double mean;
    double variance;
  };
  /// A channel's slopes (kernels/joint_statistics.hpp).
  struct Slopes {
    double sum = 0.0;
    double products = 0.0;
  };

  /// `parameters` are the shard's and must outlive the norm, which is batch norm number `number` of its stage. `shape`
  /// is the input's, and `whole_batch` the samples over which all shards together normalise.
  HostBatchNorm(const BatchNorm& layer, const Shape& shape, int whole_batch, HostParameters<T>& parameters,
                std::size_t number);

  int channels() const { return shape_.c; }
  /// Returns the number of values of a channel in the shard, and in the whole batch.
  double count() const { return static_cast<double>(shape_.n) * shape_.h * shape_.w; }
  double whole_count() const { return static_cast<double>(whole_batch_) * shape_.h * shape_.w; }

  Moments find_moments(const BasicTensor<T>& x, int c) const;
  /// Updates the running averages by the moments of the whole batch, and normalises.
  void normalise(const BasicTensor<T>& x, BasicTensor<T>& y, int c, const Moments& moments);
  /// Normalises by the running averages.
  void normalise(const BasicTensor<T>& x, BasicTensor<T>& y, int c);

  /// Finds the slopes of the shard's samples, which it keeps as the gradients of the norm's parameters.
  Slopes find_slopes(const BasicTensor<T>& x, const BasicTensor<T>& dy, int c);
  /// Finds dx from the slopes of the whole batch.
  void differentiate(const BasicTensor<T>& x, const BasicTensor<T>& dy, BasicTensor<T>& dx, int c,
                     const Slopes& slopes);

 private:
  void normalise(const BasicTensor<T>& x, BasicTensor<T>& y, int c, double mean, double variance);
  /// Returns weights, biases, running means and running variances.
  std::span<HostParameter<T>, 4> own() { return parameters_->batch_norm(number_); }

  BatchNorm layer_;
  Shape shape_;
  int whole_batch_;
  HostParameters<T>* parameters_;
  std::size_t number_;
  // By channel, of the last forward.
  std::vector<double> mean_;
  std::vector<double> inverse_;  ///< 1 / standard deviation
};

}  // namespace convoy
