// Helpers and resources that the sources of the OpenCL device share.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "cl/kernels.hpp"
#include "core/error.hpp"
#include "kernels/device.hpp"

namespace convoy {

/// Returns the smallest multiple of `multiple` that is at least `value`.
inline int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }
/// Returns the bytes of a packed value.
inline std::size_t stored_bytes(bool half) { return half ? sizeof(cl_half) : sizeof(float); }
/// Returns the number of blocks of `size` that cover `value`.
inline int blocks(int value, int size) { return (value + size - 1) / size; }

/// A buffer that all convolutions of a device use in turn, as large as the largest request.
class ClScratch {
 public:
  const ClBuffer& at_least(ClContext& context, std::size_t bytes) {
    if (bytes > buffer_.bytes()) buffer_ = context.allocate(bytes, "the scratch memory of convolutions");
    return buffer_;
  }
  std::size_t bytes() const { return buffer_.bytes(); }

 private:
  ClBuffer buffer_;
};

/// A run of channels of maps: the number of channels of the maps, and the first channel of the run.
struct ClChannels {
  int all;
  int first;
};

/// Resources that a device's shards share.
struct ClShared {
  ClContext context;
  LayerKernels layers;
  int units;  ///< compute units; on a processor its cores
  int vector_width = 4;
  std::map<std::tuple<int, int, int, int, ClTile>, ConvolutionKernels> convolutions;                 ///< by geometry
  std::map<std::tuple<int, int, int, int, ClGradientTile>, FilterGradientKernels> filter_gradients;  ///< by geometry
  std::optional<ColumnKernels> columns;
  std::optional<GroupedKernels> grouped;
  std::optional<NormKernels> norms;
  std::optional<ChannelKernels> channels;
  std::optional<DropoutKernels> dropouts;
  std::optional<ResizeKernels> resizing;
  std::map<bool, GroupNormKernels> group_norms;  ///< by GroupNorm::by_position
  std::map<int, ActivationKernels> activations;  ///< by code_of
  ClScratch column_scratch;
  ClScratch channel_scratch;

  ClShared(const ClDeviceId& device, const ClSettings& settings)
      : context(device, settings),
        layers(context),
        units(static_cast<int>(device_info<cl_uint>(device.device, CL_DEVICE_MAX_COMPUTE_UNITS))) {
    if (context.is_processor()) {
      const auto native = device_info<cl_uint>(device.device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
      vector_width = native >= 16 ? 16 : native >= 8 ? 8 : 4;
    }
  }

  /// Returns how a convolution with `filters` output maps is divided into work-items.
  ClTile tile_for(int filters, bool images) const {
    return {.width = vector_width, .filters = filters_of_tile(filters, images), .images = images};
  }
  ConvolutionKernels convolution(const Convolution& geometry, const ClTile& tile) {
    return known_kernels(convolutions, geometry, tile);
  }
  FilterGradientKernels filter_gradient(const Convolution& geometry, const ClGradientTile& tile) {
    return known_kernels(filter_gradients, geometry, tile);
  }

  /// Returns the kernels around matrix products with timings of their own, because the cost of a work-item depends on
  /// the convolution.
  ColumnKernels column_kernels() {
    if (!columns) columns.emplace(context);
    ColumnKernels apart = *columns;
    for (ClKernel* kernel : {&apart.to_columns, &apart.from_columns, &apart.from_channels, &apart.to_channels}) {
      *kernel = kernel->timed_apart();
    }
    return apart;
  }

  GroupedKernels grouped_kernels() {
    if (!grouped) grouped.emplace(context);
    return grouped->timed_apart();
  }

  const ActivationKernels& activation_kernels(int activation) {
    return activations.try_emplace(activation, context, activation).first->second;
  }

  const GroupNormKernels& group_norm_kernels(bool by_position) {
    return group_norms.try_emplace(by_position, context, by_position).first->second;
  }

  const ResizeKernels& resize_kernels() {
    if (!resizing) resizing.emplace(context);
    return *resizing;
  }

  const NormKernels& norm_kernels() {
    if (!norms) norms.emplace(context);
    return *norms;
  }

  const ChannelKernels& channel_kernels() {
    if (!channels) channels.emplace(context);
    return *channels;
  }

  const DropoutKernels& dropout_kernels() {
    if (!dropouts) dropouts.emplace(context);
    return *dropouts;
  }

  /// Replaces a run of channels of `to` by a run of `from`, or adds it. `run` is the shape of the run's maps.
  void take_channels(const ClBuffer& from, ClChannels read, const ClBuffer& to, ClChannels written, const Shape& run,
                     bool added, SampleRange samples) {
    launch_over_maps(layers.take_channels, run, samples, from, to, run.c, read.all, read.first, written.all,
                     written.first, added ? 1 : 0, run.h, run.w);
  }

  /// Sums each channel of maps; `slices` is scratch memory for (samples, channels) sums.
  void sum_channels(const ClKernel& sum_maps, const Shape& maps, const ClBuffer& values, const ClBuffer& slices,
                    const ClBuffer& sums) {
    const int count = maps.n * maps.c;
    context.launch(sum_maps, {static_cast<std::size_t>(count), 1, 1}, values, slices, count, maps.h * maps.w);
    context.launch(layers.sum_slices, chunks(maps.c), slices, sums, maps.n, maps.c, chunk());
  }

  /// Copies maps of one shape.
  void copy_maps(const ClBuffer& from, const ClBuffer& to, const Shape& maps, SampleRange samples) {
    take_channels(from, {maps.c, 0}, to, {maps.c, 0}, maps, false, samples);
  }

  /// Returns the number of values that a work-item computes of a plain array: 256 on processors, one elsewhere.
  int chunk() const { return context.is_processor() ? 256 : 1; }
  ClRange chunks(int count) const { return {static_cast<std::size_t>(blocks(count, chunk())), 1, 1}; }

  /// Launches a kernel over samples of maps; a work-item computes a whole map on processors, and one element elsewhere.
  template <class... Args>
  void launch_over_maps(const ClKernel& kernel, const Shape& maps, SampleRange samples, const Args&... args) {
    const auto channels = static_cast<std::size_t>(maps.c);
    const std::size_t count = static_cast<std::size_t>(samples.count) * channels;
    const ClRange range = context.is_processor()
                              ? ClRange{1, 1, count}
                              : ClRange{static_cast<std::size_t>(maps.w), static_cast<std::size_t>(maps.h), count};
    context.launch_from(kernel, static_cast<std::size_t>(samples.first) * channels, range, args...);
  }

 private:
  /// Returns kernels of `all`, which are built where they are not among them yet.
  template <class Kernels, class Tile>
  Kernels known_kernels(std::map<std::tuple<int, int, int, int, Tile>, Kernels>& all, const Convolution& geometry,
                        const Tile& tile) {
    const std::tuple key{geometry.kernel_h, geometry.kernel_w, geometry.stride_h, geometry.stride_w, tile};
    auto known = all.find(key);
    if (known == all.end()) known = all.emplace(key, Kernels(context, tile, geometry)).first;
    return known->second.timed_apart();
  }
};

/// A tensor of plain NCHW floats on the device.
class ClTensor : public DeviceTensor {
 public:
  ClTensor(ClShared& shared, const Shape& shape, const std::string& what)
      : shared_(shared), shape_(shape), buffer_(shared.context.allocate(shape.size() * sizeof(float), what)) {}

  using DeviceTensor::read;
  using DeviceTensor::take_channels;
  using DeviceTensor::write;
  Shape shape() const override { return shape_; }
  void take_channels(const DeviceTensor& from, FilterRange channels, int first, bool added,
                     SampleRange samples) override;
  void write(SampleRange samples, std::span<const float> values) override {
    invariant(values.size() == size_of(samples.count), "the values fill the samples");
    shared_.context.write(buffer_, size_of(samples.first), values);
  }
  bool write_pixels(SampleRange samples, std::span<const std::uint8_t> pixels, const Normaliser& normaliser) override;
  void read(SampleRange samples, std::span<float> values) const override {
    invariant(values.size() == size_of(samples.count), "the values fill the samples");
    shared_.context.read(buffer_, size_of(samples.first), values);
  }
  Tensor to_host() const {
    Tensor tensor(shape_);
    read(tensor.span());
    return tensor;
  }
  const ClBuffer& buffer() const { return buffer_; }
  const ClContext& context() const { return shared_.context; }

 private:
  std::size_t size_of(int samples) const { return static_cast<std::size_t>(samples) * shape_.sample_size(); }

  ClShared& shared_;
  Shape shape_;
  ClBuffer buffer_;
};

/// Returns a tensor as one of the device's own.
const ClTensor& own_tensor(const ClShared& shared, const DeviceTensor& tensor);

/// A parameter with the optimizer's moments.
struct ClParameter {
  ClTensor values;
  std::vector<std::unique_ptr<ClTensor>> moments;
  std::unique_ptr<ClTensor> gradient;  ///< null where the parameter is not trained
  float rate;                          ///< factor of the learning rate; 0: the parameter is not trained

  ClParameter(ClShared& shared, const Shape& shape, float factor, int count, const std::string& what)
      : values(shared, shape, what), rate(factor) {
    if (rate == 0.0F) return;
    for (int i = 0; i < count; ++i) moments.push_back(std::make_unique<ClTensor>(shared, shape, what));
    gradient = std::make_unique<ClTensor>(shared, shape, what);
  }

  /// Sets `broken` where a result is not finite; of an untrained parameter, where a value is not.
  void update(ClShared& shared, const UpdateStep& of_all, const ClBuffer& broken) const {
    const UpdateStep step = with_rate(of_all, rate);
    const int count = static_cast<int>(values.shape().size());
    if (gradient == nullptr) {
      shared.context.launch(shared.layers.find_broken, shared.chunks(count), values.buffer(), count, shared.chunk(),
                            broken);
      return;
    }
    shared.context.launch(shared.layers.update, shared.chunks(count), values.buffer(), moments.front()->buffer(),
                          moments.back()->buffer(), gradient->buffer(), count, shared.chunk(),
                          static_cast<int>(step.optimizer), step.gradient_scale, step.learning_rate, step.momentum,
                          step.weight_decay, step.beta2, step.epsilon, step.learning_rate / step.correction1,
                          1.0F / step.correction2, broken);
  }
  Parameter to_host() const {
    Parameter host{values.to_host(), {}};
    for (const auto& moment : moments) host.moments.push_back(moment->to_host());
    return host;
  }
  void take(const Parameter& from) {
    invariant(from.value.shape() == values.shape(), "the state has the shard's shape");
    values.write(from.value.span());
    for (std::size_t m = 0; m < moments.size(); ++m) moments[m]->write(from.moments.at(m).span());
  }
};

/// Maps with a border of zeros, in the packed layout that layers.cl describes.
class PackedMaps {
 public:
  struct Geometry {
    int rows = 0;
    int pitch = 0;
    int phases = 1;
    int top = 0;
    int left = 0;
    int step_y = 1;
    int step_x = 1;
    bool by_channel = false;  ///< all samples of a channel are contiguous
    bool half = false;        ///< in 16 bits
  };

  PackedMaps() = default;
  PackedMaps(ClShared& shared, const Shape& maps, const Geometry& geometry, const std::string& what)
      : maps_(maps),
        geometry_(geometry),
        buffer_(shared.context.allocate(
            static_cast<std::size_t>(maps.n) * maps.c * plane() * stored_bytes(geometry.half), what)) {}

  int row() const { return geometry_.phases * geometry_.pitch; }
  int plane() const { return geometry_.rows * row(); }
  int phase() const { return geometry_.pitch; }
  const ClBuffer& buffer() const { return buffer_; }

  void fill(ClShared& shared, const ClBuffer& plain, SampleRange samples) {
    const Geometry& g = geometry_;
    const auto size = static_cast<cl_ulong>(plane());
    const cl_ulong sample = g.by_channel ? size : size * static_cast<cl_ulong>(maps_.c);
    const cl_ulong channel = g.by_channel ? size * static_cast<cl_ulong>(maps_.n) : size;
    shared.launch_over_maps(g.half ? shared.layers.pack_half : shared.layers.pack, maps_, samples, plain, buffer_,
                            maps_.c, maps_.h, maps_.w, sample, channel, g.phases, g.pitch, g.top, g.left, g.step_y,
                            g.step_x);
  }

 private:
  Shape maps_;
  Geometry geometry_;
  ClBuffer buffer_;
};

}  // namespace convoy
