#include "model/device_dense.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "core/error.hpp"

namespace convoy {
namespace {

/// The values lie on the host (host_), on the device (shard_), or, where nobody has changed them since they were
/// copied, on both.
class DeviceDense : public DenseLayer<float> {
 public:
  DeviceDense(const DenseSpec& spec, Device& device, std::function<void(const std::string&)> notice)
      : host_(make_host_dense<float>(spec)), device_(device), notice_(std::move(notice)) {}

  const DenseSpec& spec() const override { return host_->spec(); }

  void forward(std::span<const float> x, std::span<float> y, const Pass& pass, SampleRange samples) override {
    if (samples.first == 0) on_device_ = !given_up_;
    if (on_device_ && !takes(samples)) give_up(samples);
    if (!on_device_) return host_->forward(x, y, pass, samples);
    upload();
    input_->write(samples, x);
    const DeviceTensor* output = nullptr;
    for_each_micro_batch(samples, [&](SampleRange part) { output = &shard_->forward(*input_, pass, part); });
    output->read(samples, y);
  }

  void backward(std::span<const float> dy, std::span<float> dx, SampleRange samples) override {
    if (!on_device_) return host_->backward(dy, dx, samples);
    slopes_->write(samples, dy);
    const DeviceTensor* gradient = nullptr;
    for_each_micro_batch(samples, [&](SampleRange part) { gradient = shard_->backward_input(*slopes_, part); });
    if (gradient != nullptr) gradient->read(samples, dx);
  }

  void backward_weights(std::span<const float> x, std::span<const float> dy) override {
    gradients_.reset();
    if (!on_device_) return host_->backward_weights(x, dy);
    if (!spec().frozen()) shard_->backward_filters();
  }

  void update(const UpdateStep& step) override {
    if (spec().frozen()) return;
    if (!on_device_) return host_->update(step);
    upload();
    shard_->update(step);
    host_is_new_ = false;
  }

  bool finite() const override {
    return !broken_ && host_->finite() && (shard_ == nullptr || !device_is_new_ || shard_->finite());
  }

  const DenseState<float>& state() const override {
    download();
    return host_->state();
  }
  void set_state(const DenseState<float>& state) override {
    host_->set_state(state);
    changed_on_host();
  }
  DenseState<float>& edit() override {
    download();
    changed_on_host();
    return host_->edit();
  }

  const Tensor& weight_gradient() const override {
    return on_device_ && !spec().frozen() ? gradients()[0] : host_->weight_gradient();
  }
  const Tensor& bias_gradient() const override {
    return on_device_ && !spec().frozen() ? gradients()[1] : host_->bias_gradient();
  }

 private:
  /// Calls compute(part) for the micro-batches of the shard that make up `samples`.
  template <class Compute>
  void for_each_micro_batch(SampleRange samples, const Compute& compute) {
    const int count = shard_->spec().batch / shard_->spec().micro_batches;
    for (int first = samples.first; first < samples.first + samples.count; first += count) compute({first, count});
  }

  bool is_made_of_micro_batches(SampleRange samples) const {
    const int count = shard_->spec().batch / shard_->spec().micro_batches;
    return samples.first % count == 0 && samples.count % count == 0;
  }

  /// Returns whether the device takes the part. With the first part of a batch the shard may become another.
  bool takes(SampleRange samples) {
    if (shard_ && is_made_of_micro_batches(samples)) return true;
    return samples.first == 0 && samples.count > 0 && spec().batch % samples.count == 0 &&
           compile(spec().batch / samples.count);
  }

  /// Returns whether the device has room.
  bool compile(int micro_batches) {
    leave_device();
    Stage stage = dense_stage(spec().name, {1, spec().inputs}, spec().units);
    stage.conv.rate = spec().rate;
    stage.moments = spec().moments;
    try {
      // Shards of the trunk may still have to read an input gradient that they share, so the layer has one of its own.
      shard_ = device_.compile({.stage = std::move(stage),
                                .filters = {0, spec().units},
                                .batch = spec().batch,
                                .input_gradient = spec().input_gradient,
                                .keep_input_gradient = true,
                                .micro_batches = micro_batches});
      input_ = shard_->make_input();
      slopes_ = shard_->make_output_gradient();
      upload();
    } catch (const DeviceLost&) {
      throw;
    } catch (const Error& error) {
      leave_device();
      why_ = fmt::format("{} cannot hold it ({})", device_.info().name, error.what());
    }
    return shard_ != nullptr;
  }

  /// From now on the host computes the layer. It has the batch so far, of which the caller keeps x and y.
  void give_up(SampleRange samples) {
    leave_device();
    given_up_ = true;
    on_device_ = false;
    if (why_.empty()) {
      why_ = fmt::format("its batches of {} come in parts that are not equal, such as {} images from number {} on",
                         spec().batch, samples.count, samples.first);
    }
    if (notice_) notice_(fmt::format("the host computes dense layer {}, because {}", spec().name, why_));
  }

  /// Frees what the layer has on the device, after copying its values to the host.
  void leave_device() {
    if (shard_ && device_is_new_) {
      download();
      broken_ = broken_ || !shard_->finite();
    }
    device_is_new_ = false;
    slopes_.reset();
    input_.reset();
    shard_.reset();
  }

  void upload() {
    if (device_is_new_) return;
    const DenseState<float>& state = host_->state();
    shard_->set_state({{kept(state.weights), kept(state.bias)}});
    device_is_new_ = true;
  }

  /// Heads that only test may get weights without moments, or with moments that they do not keep.
  Parameter kept(Parameter parameter) const {
    const auto moments = static_cast<std::size_t>(spec().frozen() ? 0 : spec().moments);
    parameter.moments.resize(moments, Tensor(parameter.value.shape(), 0.0F));
    return parameter;
  }

  void download() const {
    if (host_is_new_) return;
    ShardState state = shard_->state();
    host_->set_state({spec().name, std::move(state.parameters[0]), std::move(state.parameters[1])});
    host_is_new_ = true;
  }

  void changed_on_host() {
    host_is_new_ = true;
    device_is_new_ = false;
    broken_ = false;
  }

  const std::vector<Tensor>& gradients() const {
    if (!gradients_) gradients_ = shard_->gradients();
    return *gradients_;
  }

  std::unique_ptr<DenseLayer<float>> host_;  ///< const functions may bring its values up to date
  Device& device_;
  std::function<void(const std::string&)> notice_;
  std::unique_ptr<Shard> shard_;  ///< null until the first part, and where the host computes
  std::unique_ptr<DeviceTensor> input_, slopes_;
  mutable bool host_is_new_ = true;                       ///< whether host_ has the newest values
  bool device_is_new_ = false;                            ///< whether shard_ has them
  mutable std::optional<std::vector<Tensor>> gradients_;  ///< of the device, where somebody has asked for them
  bool on_device_ = false;                                ///< whether the device computes the batch
  bool given_up_ = false;                                 ///< whether the host computes from now on
  bool broken_ = false;  ///< whether the values were not finite when they left the device
  std::string why_;      ///< why the host computes
};

}  // namespace

Stage dense_stage(const std::string& name, const Shape& maps, int units) {
  return {.name = name,
          .channels = maps.c,
          .height = maps.h,
          .width = maps.w,
          .conv = {.filters = units, .kernel_h = maps.h, .kernel_w = maps.w},
          .after = {}};
}

std::unique_ptr<DenseLayer<float>> make_device_dense(const DenseSpec& spec, Device& device,
                                                     const std::function<void(const std::string&)>& notice) {
  return std::make_unique<DeviceDense>(spec, device, notice);
}

}  // namespace convoy
