// The device interface. A device computes shards: a filter range of one stage (convolution, bias and the layers after
// it), forward and backward. It keeps the shard's weights and optimizer state. It knows no network and no net.
// Activations pass from shard to shard as the device's own opaque tensors, in its layout and its memory. Conversion
// from and to host NCHW floats is an explicit step, done only where data enters or leaves the device.
// Threads: only one thread at a time may use a device, its shards and its tensors.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/images.hpp"
#include "core/shard_state.hpp"
#include "core/tensor.hpp"

namespace convoy {

/// An activation tensor (or a gradient of one) in a device's layout and memory.
class DeviceTensor {
 public:
  virtual ~DeviceTensor() = default;
  virtual Shape shape() const = 0;
  /// For the samples in `samples`, replaces the channels from `first` on by channels `channels` of `from`, or adds to
  /// them where `added` is set. `from` belongs to the same device and has the same batch, rows and columns.
  virtual void take_channels(const DeviceTensor& from, FilterRange channels, int first, bool added,
                             SampleRange samples);
  /// Fills the samples from NCHW floats; `values` has as many elements as the samples.
  virtual void write(SampleRange samples, std::span<const float> values) = 0;
  /// Normalises pixels in NCHW order and fills the samples with the values. Returns false, and does nothing, where the
  /// device does not normalise pixels; the caller then writes floats.
  virtual bool write_pixels(SampleRange, std::span<const std::uint8_t>, const Normaliser&) { return false; }
  /// Converts the samples to NCHW floats; `values` has as many elements as the samples.
  virtual void read(SampleRange samples, std::span<float> values) const = 0;

  /// The same operations for the whole batch.
  void take_channels(const DeviceTensor& from, FilterRange channels, int first, bool added) {
    take_channels(from, channels, first, added, {0, shape().n});
  }
  void write(std::span<const float> values) { write({0, shape().n}, values); }
  void read(std::span<float> values) const { read({0, shape().n}, values); }
};

/// The description of a shard, from which a device compiles it.
struct ShardSpec {
  Stage stage;
  FilterRange filters;         ///< a range of the stage's filters, at least 1
  int batch = 1;               ///< samples of the batch
  bool input_gradient = true;  ///< false where it is not needed, as for the first stage
  /// If false, the result of backward_input is valid only until any shard of the device computes again, so that devices
  /// may let all shards share one buffer for it.
  bool keep_input_gradient = true;
  /// Number of equal parts, in samples, in which forward and backward_input take the batch. It divides `batch`.
  int micro_batches = 1;
  /// Where the shard computes only some samples of each micro-batch of a larger batch: the number of its first sample
  /// in the micro-batch, and how many samples the micro-batch has. 0: it has those of the shard.
  int first_sample = 0;
  int whole_micro_batch = 0;

  /// Returns whether maps and gradients are ready only when the whole batch has been given, as with batch norm.
  bool waits_for_batch() const { return has_batch_norm(stage); }
  /// Returns whether other shards have the rest of the batch over which the stage normalises, so that their statistics
  /// must be joined (Shard::moments).
  bool joins_statistics() const { return batch_norms(stage) > 0 && whole_micro_batch * micro_batches > batch; }
  /// Returns the samples that the layers after the convolution compute when forward is given `samples`: the same
  /// samples, or, where the stage waits for the batch, none before the last micro-batch and the whole batch with it.
  SampleRange taken_by_layers(SampleRange samples) const {
    if (!waits_for_batch()) return samples;
    return samples.first + samples.count < batch ? SampleRange{samples.first, 0} : SampleRange{0, batch};
  }
  /// Returns the samples of the output that become ready when forward is given `samples`: those of taken_by_layers(),
  /// or none where normalise() makes them ready.
  SampleRange ready_after_forward(SampleRange samples, const Pass& pass) const {
    return joins_statistics() && pass.training ? SampleRange{samples.first, 0} : taken_by_layers(samples);
  }
  /// Returns the samples of the output gradient that backward_input reads when it is given `samples`: the same samples;
  /// where the stage waits for the batch, the whole batch with the first micro-batch and none afterwards; and none
  /// where slopes() reads them.
  SampleRange read_by_backward(SampleRange samples) const {
    if (!waits_for_batch()) return samples;
    return samples.first > 0 || joins_statistics() ? SampleRange{samples.first, 0} : SampleRange{0, batch};
  }
};

/// Returns the samples of micro-batch number `index`.
inline SampleRange micro_batch(const ShardSpec& spec, int index) {
  const int count = spec.batch / spec.micro_batches;
  return {index * count, count};
}

/// The place of a shard's maps among the maps of the whole stage and the whole batch.
struct Origin {
  int first_filter = 0;
  int first_sample = 0;       ///< in each micro-batch
  int micro_batch = 1;        ///< samples of a micro-batch that the shard computes
  int whole_micro_batch = 1;  ///< all samples of a micro-batch
  /// Returns the number in the whole batch of the shard's sample `sample`.
  int number_in_batch(int sample) const {
    return sample / micro_batch * whole_micro_batch + first_sample + sample % micro_batch;
  }
};

/// Returns the number of samples of the whole batch, of which the shard computes spec.batch.
inline int whole_batch(const ShardSpec& spec) {
  return spec.whole_micro_batch > 0 ? spec.whole_micro_batch * spec.micro_batches : spec.batch;
}

/// Returns the place of a shard's maps.
inline Origin origin_of(const ShardSpec& spec) {
  const int count = spec.batch / spec.micro_batches;
  return {.first_filter = spec.filters.first,
          .first_sample = spec.first_sample,
          .micro_batch = count,
          .whole_micro_batch = spec.whole_micro_batch > 0 ? spec.whole_micro_batch : count};
}

/// One shard, compiled for a batch size. The order of calls is forward, backward_input, backward_filters, update;
/// outside training forward alone. forward and backward_input take micro-batches, each in ascending order, so that one
/// micro-batch may travel while the next is computed. A micro-batch may go backward before the next goes forward,
/// unless the stage waits for the batch. backward_filters takes the whole batch at once.
///
/// Where spec().joins_statistics(), a training step also calls, for each batch norm of the stage that is not frozen, in
/// their order, moments and normalise after the last forward; and, in the opposite order, slopes and take_slopes before
/// the first backward_input. Between the two of a pair, the caller joins the numbers of all shards with these filters
/// (kernels/joint_statistics.hpp). Each shard then has the same statistics as one shard with the whole batch.
class Shard {
 public:
  virtual ~Shard() = default;
  virtual const ShardSpec& spec() const = 0;

  /// Return new tensors in the layout that this shard reads fastest. forward and backward_input accept any tensor of
  /// the right shape of the same device, and convert where the layout differs.
  virtual std::unique_ptr<DeviceTensor> make_input() const = 0;
  virtual std::unique_ptr<DeviceTensor> make_output_gradient() const = 0;

  /// Returns a new tensor for the maps that Add or Multiply layer number `index` of the stage takes in, of the shape
  /// added_shapes(stage, batch, filters.count)[index]. The layers of both kinds are numbered together.
  virtual std::unique_ptr<DeviceTensor> make_added(std::size_t index) const = 0;
  /// Sets the maps that this layer takes in, in every forward from now on. Call it for each such layer before the first
  /// forward; `maps` must outlive the shard, or the next call. After a forward in training, their samples stay
  /// unchanged until the same samples have gone backward.
  virtual void connect(std::size_t index, const DeviceTensor& maps) = 0;
  /// Returns the gradient of the loss with respect to the maps that this layer takes in, for the samples of the last
  /// backward_input, or for the whole batch with batch norm. The tensor belongs to the shard and is valid
  /// until the next backward_input.
  virtual const DeviceTensor& added_gradient(std::size_t index) const = 0;

  /// Computes one micro-batch: from `samples` of the input (batch, channels, height, width) to the same samples of the
  /// output, output_shape(stage, batch, filters.count). The result belongs to the shard; a sample is valid until its
  /// next forward. With pass.training, `input` must stay unchanged until backward_filters has returned. With batch norm
  /// the result is ready when the last micro-batch has been given, or by normalise().
  virtual const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) = 0;
  /// Computes all micro-batches.
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass) {
    const DeviceTensor* output = nullptr;
    for (int i = 0; i < spec().micro_batches; ++i) output = &forward(input, pass, micro_batch(spec(), i));
    return *output;
  }

  /// Computes, for the samples of one micro-batch, this shard's part of the gradient of the loss with respect to the
  /// input, from the gradient with respect to the last forward's output; the parts of all shards of a stage add up to
  /// the stage's input gradient. Returns null where the spec asked for no input gradient. The result belongs to the
  /// shard; a sample is valid until its next backward_input where the spec keeps input gradients, and otherwise until
  /// any shard of the device computes again. A stage with batch norm reads the gradient of the whole batch in the first
  /// call, or in slopes(). backward_filters is a call of its own so that this result may travel while the filter
  /// gradient is computed.
  virtual const DeviceTensor* backward_input(const DeviceTensor& output_gradient, SampleRange samples) = 0;
  /// Computes all micro-batches.
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient) {
    const DeviceTensor* input_gradient = nullptr;
    for (int i = 0; i < spec().micro_batches; ++i) {
      input_gradient = backward_input(output_gradient, micro_batch(spec(), i));
    }
    return input_gradient;
  }
  /// Computes the gradients of weights and bias for the whole batch after the last backward_input, and keeps them in
  /// the shard. `output_gradient` must still be unchanged.
  virtual void backward_filters() = 0;
  /// Runs backward_input for all micro-batches, then backward_filters.
  const DeviceTensor* backward(const DeviceTensor& output_gradient) {
    const DeviceTensor* input_gradient = backward_input(output_gradient);
    backward_filters();
    return input_gradient;
  }

  // The functions below are for shards of which spec().joins_statistics().
  /// moments returns the mean and the variance of each channel of the next batch norm's input, over the shard's
  /// samples. normalise takes the moments over the samples of all shards, updates the running averages, and computes
  /// the layers up to the next batch norm; after the last one the output, which it returns, is ready.
  virtual std::vector<float> moments() = 0;
  virtual const DeviceTensor& normalise(std::span<const double> joint) = 0;
  /// slopes returns the slopes (kernels/joint_statistics.hpp) of the next batch norm, counted from the last, over the
  /// shard's samples. The first slopes after a forward computes the layers after the last batch norm backward from the
  /// gradient with respect to the whole output. take_slopes takes the slopes over the samples of all shards, and
  /// computes the batch norm and the layers before it backward. The gradients of the batch norm's parameters are the
  /// sums over the shard's samples.
  virtual std::vector<float> slopes(const DeviceTensor& output_gradient) = 0;
  virtual void take_slopes(std::span<const double> joint) = 0;

  /// Applies the gradients of the last backward, with the learning rate of each layer. Frozen parameters stay as they
  /// are.
  virtual void update(const UpdateStep& step) = 0;
  /// Returns whether all parameters and moments are finite, as far as the device has finished the updates: the call
  /// does not wait, and after state() it covers all of them. After an update that left other values the answer stays
  /// false until set_state().
  virtual bool finite() const = 0;

  /// The parameters and the optimizer's moments for them; the shapes are those of zero_state(stage, filters.count).
  virtual ShardState state() const = 0;
  virtual void set_state(const ShardState& state) = 0;
  /// Returns the gradients of the last backward, one tensor for each parameter in the order and shapes of
  /// parameters_of(stage, filters.count); the tensor of an untrained parameter is empty.
  virtual std::vector<Tensor> gradients() const = 0;
  /// Replaces the gradients before the next update, in the form that gradients() returns: several shards may sum
  /// theirs.
  virtual void set_gradients(const std::vector<Tensor>& gradients) = 0;
};

/// Returns the gradients of the last backward in the form of a state without moments, in which the running averages are
/// those after the last forward.
ShardState gradient_state(const Shard& shard);

/// Returns the sum of the squares of all gradients of the last backward.
double gradient_squares(const Shard& shard);

/// The facts about a device that planner and user need.
struct DeviceInfo {
  std::string name;         ///< the name that --device takes: "cpu", "reference"
  std::string description;  ///< for people: library, instruction set, threads
  int threads = 1;
  /// Bytes of the device's own memory (free ones, where the driver reports them); 0 if it uses the host's.
  std::size_t memory = 0;
  double memory_factor = 1.0;  ///< bytes that shards really take per byte that shard_bytes in plan/profile.hpp counts
  /// Filters computed together (vector width); a shard costs as much as one with the next multiple of filters.
  int filter_block = 1;
  /// Whether the driver says that all operations of an update are rounded correctly, denormals included. Only such a
  /// device can update to the bits of UpdateStep; devices/same_bits.hpp looks whether it does.
  bool rounds_correctly = true;
  /// Whether the device computes nothing: it takes the time of computing and returns zeros (devices/paced_device.hpp).
  bool paced = false;
};

/// A processor or GPU that computes shards.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  /// Does all heavy work once: chooses algorithms and layouts, builds kernels, allocates. The shard starts with
  /// zero_state(). Throws Error when the device cannot hold or compute the shard.
  virtual std::unique_ptr<Shard> compile(const ShardSpec& spec) = 0;
  /// Returns a tensor of zeros in the device's plainest layout.
  virtual std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) = 0;
  /// Waits until the device has finished all work given to it. Reading a tensor waits too; timing needs this call.
  virtual void finish() {}
};

}  // namespace convoy
