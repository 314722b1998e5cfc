// The device seam. A device computes shards: a filter range of one stage, whole (convolution, bias, activation,
// pooling), forward and backward, and keeps the shard's weights and optimizer state. It knows no network and no net.
//
// Activations pass from shard to shard as the device's own opaque tensors, in its layout and its memory. Conversion
// from and to host NCHW floats is an explicit step, done only where data enters or leaves the device.
//
// Threads: one device, its shards and tensors are used by one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/stage.hpp"
#include "core/tensor.hpp"

namespace convoy {

/// An activation tensor (or a gradient of one) in a device's layout and memory.
class DeviceTensor {
 public:
  virtual ~DeviceTensor() = default;
  virtual Shape shape() const = 0;
  /// Fills the tensor from NCHW floats; `values.size()` must equal `shape().size()`.
  virtual void write(std::span<const float> values) = 0;
  /// Converts the tensor to NCHW floats; `values.size()` must equal `shape().size()`.
  virtual void read(std::span<float> values) const = 0;
};

struct ShardSpec {
  Stage stage;
  FilterRange filters;         ///< within the stage's filters, count at least 1
  int batch = 1;               ///< samples of every pass
  bool input_gradient = true;  ///< false for a first stage: its input gradient is never needed
};

/// One shard, compiled for a batch size. The order of calls is forward, backward, update; forward alone for testing.
class Shard {
 public:
  virtual ~Shard() = default;

  /// New tensors in the layout that this shard reads fastest. forward and backward take any tensor of the right shape
  /// of the same device, and convert where the layout differs.
  virtual std::unique_ptr<DeviceTensor> make_input() const = 0;
  virtual std::unique_ptr<DeviceTensor> make_output_gradient() const = 0;

  /// Input (batch, channels, height, width) to output_shape(stage, batch, filters.count). The result belongs to the
  /// shard and holds until its next forward. With pass.training, `input` must stay as it is until backward has
  /// returned.
  virtual const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass) = 0;

  /// From the gradient of the loss by the last forward's output, in two halves, so that the first's result may travel
  /// while the second computes. The first returns this shard's part of the gradient by the input, to be summed over all
  /// shards of the stage; null when the spec asked for none. It belongs to the shard and holds until the next call.
  virtual const DeviceTensor* backward_input(const DeviceTensor& output_gradient) = 0;
  /// Then the gradients of weights and bias, kept inside. `output_gradient` must still be as it was.
  virtual void backward_filters() = 0;
  /// Both halves.
  const DeviceTensor* backward(const DeviceTensor& output_gradient) {
    const DeviceTensor* input_gradient = backward_input(output_gradient);
    backward_filters();
    return input_gradient;
  }

  /// Applies the last backward's gradients.
  virtual void update(const SgdStep& step) = 0;

  /// Weights and optimizer state out and in; shapes as zero_state(stage, filters.count).
  virtual ShardState state() const = 0;
  virtual void set_state(const ShardState& state) = 0;
  /// Gradients of the last backward, (filters, channels, kernel_h, kernel_w) and (filters, 1): for tests.
  virtual void gradients(Tensor& weights, Tensor& bias) const = 0;
};

struct DeviceInfo {
  std::string name;         ///< as in --device: "cpu", "reference"
  std::string description;  ///< for people: library, instruction set, threads
  int threads = 1;
  std::size_t memory = 0;      ///< bytes of its own; 0: it computes in the machine's memory
  double memory_factor = 1.0;  ///< bytes that shards take for each that plan/plan.hpp's shard_bytes counts
  int filter_block = 1;        ///< filters computed together (vector width): a shard costs as much as the next multiple
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  /// Does all heavy work once: chooses algorithms and layouts, builds kernels, allocates. Weights start at zero.
  /// Throws Error when the device cannot hold or compute the shard.
  virtual std::unique_ptr<Shard> compile(const ShardSpec& spec) = 0;
  /// Waits until all that was asked of the device is done. Reading a tensor waits as well; timing needs this.
  virtual void finish() {}
};

}  // namespace convoy
