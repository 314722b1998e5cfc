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

#include "core/shard_state.hpp"
#include "core/tensor.hpp"

namespace convoy {

/// An activation tensor (or a gradient of one) in a device's layout and memory.
class DeviceTensor {
 public:
  virtual ~DeviceTensor() = default;
  virtual Shape shape() const = 0;
  /// In these samples, channels of another tensor of the same device, batch, rows and columns, in place of channels from
  /// `first` on; or added to them.
  virtual void take_channels(const DeviceTensor& from, FilterRange channels, int first, bool added,
                             SampleRange samples);
  /// Fills samples from NCHW floats, as many as the samples hold.
  virtual void write(SampleRange samples, std::span<const float> values) = 0;
  /// Converts samples to NCHW floats, as many as they hold.
  virtual void read(SampleRange samples, std::span<float> values) const = 0;

  /// The same for all of the batch.
  void take_channels(const DeviceTensor& from, FilterRange channels, int first, bool added) {
    take_channels(from, channels, first, added, {0, shape().n});
  }
  void write(std::span<const float> values) { write({0, shape().n}, values); }
  void read(std::span<float> values) const { read({0, shape().n}, values); }
};

struct ShardSpec {
  Stage stage;
  FilterRange filters;         ///< within the stage's filters, count at least 1
  int batch = 1;               ///< samples of every pass
  bool input_gradient = true;  ///< false for a first stage: its input gradient is never needed
  /// Otherwise backward_input's result need hold no longer than until any shard of the device computes again, and devices
  /// may have all shards share its memory.
  bool keep_input_gradient = true;
  int micro_batches = 1;  ///< equal parts, in samples, in which forward and backward_input take the batch

  /// With batch norm, maps and gradients are there when all of the batch is.
  bool waits_for_batch() const { return has_batch_norm(stage); }
};

/// The samples of a micro-batch.
inline SampleRange micro_batch(const ShardSpec& spec, int index) {
  const int count = spec.batch / spec.micro_batches;
  return {index * count, count};
}

/// One shard, compiled for a batch size. The order of calls is forward, backward, update; forward alone for testing.
/// Forward and the input gradient come by micro-batch, so that one may travel while the next is computed, each in ascending
/// order; a micro-batch may be on its way back before the next goes forward, but for stages that wait for the batch. The
/// filter gradient is that of the whole batch, at once.
class Shard {
 public:
  virtual ~Shard() = default;
  virtual const ShardSpec& spec() const = 0;

  /// New tensors in the layout that this shard reads fastest. forward and backward take any tensor of the right shape
  /// of the same device, and convert where the layout differs.
  virtual std::unique_ptr<DeviceTensor> make_input() const = 0;
  virtual std::unique_ptr<DeviceTensor> make_output_gradient() const = 0;

  /// New tensors for the maps that the stage's Add layer number `index` adds: added_shapes(stage, batch, filters.count).
  virtual std::unique_ptr<DeviceTensor> make_added(std::size_t index) const = 0;
  /// What it adds, in every forward from now on. A stage that adds wants it once, before the first.
  virtual void connect(std::size_t index, const DeviceTensor& maps) = 0;
  /// From the gradient by the stage's maps that by what it adds, of the samples of the last backward_input, or of all with
  /// batch norm. Belongs to the shard and holds until the next.
  virtual const DeviceTensor& added_gradient(std::size_t index) const = 0;

  /// Samples of the input (batch, channels, height, width), one micro-batch, to the same samples of
  /// output_shape(stage, batch, filters.count). The result belongs to the shard and holds until their next forward. With
  /// pass.training, `input` must stay as it is until backward has returned. With batch norm the result is there when the
  /// last micro-batch has been given.
  virtual const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) = 0;
  /// All micro-batches.
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass) {
    const DeviceTensor* output = nullptr;
    for (int i = 0; i < spec().micro_batches; ++i) output = &forward(input, pass, micro_batch(spec(), i));
    return *output;
  }

  /// From the gradient of the loss by the last forward's output, in two halves, so that the first's result may travel
  /// while the second computes. The first finds, for samples that are one micro-batch, this shard's part of the gradient
  /// by the input, to be summed over all shards of the stage; null when the spec asked for none. It belongs to the shard
  /// and holds until the next call. A stage with batch norm reads the gradient of the whole batch in the first call.
  virtual const DeviceTensor* backward_input(const DeviceTensor& output_gradient, SampleRange samples) = 0;
  /// All micro-batches.
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient) {
    const DeviceTensor* input_gradient = nullptr;
    for (int i = 0; i < spec().micro_batches; ++i) {
      input_gradient = backward_input(output_gradient, micro_batch(spec(), i));
    }
    return input_gradient;
  }
  /// Then, for all of the batch, the gradients of weights and bias, kept inside. `output_gradient` must still be as it
  /// was.
  virtual void backward_filters() = 0;
  /// Both halves.
  const DeviceTensor* backward(const DeviceTensor& output_gradient) {
    const DeviceTensor* input_gradient = backward_input(output_gradient);
    backward_filters();
    return input_gradient;
  }

  /// Applies the last backward's gradients.
  virtual void update(const UpdateStep& step) = 0;

  /// Parameters and what the optimizer keeps for them, out and in; shapes as zero_state(stage, filters.count).
  virtual ShardState state() const = 0;
  virtual void set_state(const ShardState& state) = 0;
  /// The gradients of the last backward by the parameters of parameters_of(stage, filters.count), in their order and shapes;
  /// an empty tensor for a parameter that is not trained.
  virtual std::vector<Tensor> gradients() const = 0;
  /// Puts others in their place, as gradients() gives them, for the next update: those of several shards that were summed.
  virtual void set_gradients(const std::vector<Tensor>& gradients) = 0;
};

/// Of all gradients of the last backward.
double gradient_squares(const Shard& shard);

struct DeviceInfo {
  std::string name;         ///< as in --device: "cpu", "reference"
  std::string description;  ///< for people: library, instruction set, threads
  int threads = 1;
  std::size_t memory = 0;      ///< bytes of its own (free ones, where the driver says); 0: it has the machine's
  double memory_factor = 1.0;  ///< bytes that shards take for each that plan/profile.hpp's shard_bytes counts
  int filter_block = 1;        ///< filters computed together (vector width): a shard costs as much as the next multiple
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  /// Does all heavy work once: chooses algorithms and layouts, builds kernels, allocates. The state is zero_state().
  /// Throws Error when the device cannot hold or compute the shard.
  virtual std::unique_ptr<Shard> compile(const ShardSpec& spec) = 0;
  /// A tensor of zeros, in the device's plainest layout.
  virtual std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) = 0;
  /// Waits until all that was asked of the device is done. Reading a tensor waits as well; timing needs this.
  virtual void finish() {}
};

}  // namespace convoy
