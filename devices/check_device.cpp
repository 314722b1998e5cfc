#include "devices/check_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace convoy {
namespace {

/// The names of both devices and of the stage that they compute.
struct Subject {
  std::string first;
  std::string second;
  std::string stage;
};

std::string place_of(const Shape& shape, std::size_t index, int first_sample) {
  const auto w = static_cast<std::size_t>(shape.w);
  const auto h = static_cast<std::size_t>(shape.h);
  const auto c = static_cast<std::size_t>(shape.c);
  return fmt::format("({}, {}, {}, {})", index / (w * h * c) + static_cast<std::size_t>(first_sample),
                     index / (w * h) % c, index / w % h, index % w);
}

double root_mean_square(const Tensor& tensor) {
  return std::sqrt(sum_of_squares(tensor.span()) / static_cast<double>(std::max<std::size_t>(1, tensor.size())));
}

/// Throws Error where more than the fraction `may_differ` of the elements differ by more than 1/1000 of the tensor's
/// root mean square, or of `least` where it is larger; NaN always differs. Rounding leaves a few 1e-5 in sums of a
/// hundred thousand products.
void compare(const Tensor& ours, const Tensor& theirs, const Subject& subject, const std::string& what,
             double may_differ, int first_sample = 0, double least = 1e-27) {
  const double tolerance = 1e-3 * std::max(root_mean_square(theirs), least);
  std::size_t different = 0;
  std::size_t worst = 0;
  double most = -1.0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double difference = std::abs(static_cast<double>(ours.data()[i]) - static_cast<double>(theirs.data()[i]));
    if (difference <= tolerance) continue;  // false for NaN
    ++different;
    if (difference > most || std::isnan(difference)) {
      worst = i;
      most = std::isnan(difference) ? INFINITY : difference;
    }
  }
  if (static_cast<double>(different) <= may_differ * static_cast<double>(ours.size())) return;
  fail(
      "devices {} and {} disagree on stage {}, {}: {} of {} elements differ by more than {:.2g}, the most at {} "
      "(sample, channel, row, column): {} and {}",
      subject.first, subject.second, subject.stage, what, different, ours.size(), tolerance,
      place_of(ours.shape(), worst, first_sample), ours.data()[worst], theirs.data()[worst]);
}

Tensor to_host(const DeviceTensor& tensor, SampleRange samples) {
  Shape shape = tensor.shape();
  shape.n = samples.count;
  Tensor host(shape);
  tensor.read(samples, host.span());
  return host;
}

class CheckTensor : public DeviceTensor {
 public:
  CheckTensor(std::unique_ptr<DeviceTensor> first, std::unique_ptr<DeviceTensor> second)
      : first_(std::move(first)), second_(std::move(second)) {}
  Shape shape() const override { return first_->shape(); }
  void write(SampleRange samples, std::span<const float> values) override {
    first_->write(samples, values);
    second_->write(samples, values);
  }
  void read(SampleRange samples, std::span<float> values) const override { first_->read(samples, values); }
  DeviceTensor& first() const { return *first_; }
  DeviceTensor& second() const { return *second_; }

 private:
  std::unique_ptr<DeviceTensor> first_;
  std::unique_ptr<DeviceTensor> second_;
};

class CheckShard : public Shard {
 public:
  CheckShard(Device& first, Device& second, const ShardSpec& spec)
      : spec_(spec),
        subject_{.first = first.info().name, .second = second.info().name, .stage = spec.stage.name},
        parameters_(parameters_of(spec.stage, spec.filters.count)),
        first_(first.compile(spec)),
        second_(second.compile(spec)) {
    output_ = std::make_unique<CheckTensor>(first_->make_output_gradient(), second_->make_output_gradient());
    input_gradient_ = std::make_unique<CheckTensor>(first_->make_input(), second_->make_input());
  }

  std::unique_ptr<DeviceTensor> make_input() const override {
    return std::make_unique<CheckTensor>(first_->make_input(), second_->make_input());
  }
  std::unique_ptr<DeviceTensor> make_output_gradient() const override {
    return std::make_unique<CheckTensor>(first_->make_output_gradient(), second_->make_output_gradient());
  }
  std::unique_ptr<DeviceTensor> make_added(std::size_t index) const override {
    return std::make_unique<CheckTensor>(first_->make_added(index), second_->make_added(index));
  }
  void connect(std::size_t index, const DeviceTensor& maps) override {
    first_->connect(index, own(maps).first());
    second_->connect(index, own(maps).second());
  }
  const DeviceTensor& added_gradient(std::size_t index) const override {
    while (added_gradients_.size() <= index) added_gradients_.emplace_back();
    // The tensor returned shows both devices' own gradients.
    const Tensor ours = to_host(first_->added_gradient(index), {0, spec_.batch});
    const Tensor theirs = to_host(second_->added_gradient(index), {0, spec_.batch});
    compare(ours, theirs, subject_, "gradient of the added maps", 0.01);
    auto& shown = added_gradients_[index];
    if (shown == nullptr) {
      shown = std::make_unique<CheckTensor>(first_->make_added(index), second_->make_added(index));
    }
    shown->write({0, spec_.batch}, ours.span());
    return *shown;
  }
  const ShardSpec& spec() const override { return spec_; }
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) override {
    normalised_ = 0;
    const CheckTensor& both = own(input);
    const DeviceTensor& first = first_->forward(both.first(), pass, samples);
    const DeviceTensor& second = second_->forward(both.second(), pass, samples);
    return compared(first, second, spec_.ready_after_forward(samples, pass));
  }
  std::vector<float> moments() override {
    const std::vector<float> ours = first_->moments();
    const std::vector<float> theirs = second_->moments();
    const int channels = spec_.filters.count;
    const auto list = [&](const std::vector<float>& moments, int first) {
      Tensor values({channels, 1});
      std::copy_n(moments.begin() + first, channels, values.data());
      return values;
    };
    const Tensor variances = list(theirs, channels);
    compare(list(ours, channels), variances, subject_, "variances of a batch norm", 0.0);
    const double deviation = std::sqrt(root_mean_square(variances));
    compare(list(ours, 0), list(theirs, 0), subject_, "means of a batch norm", 0.0, 0, deviation);
    return ours;
  }
  const DeviceTensor& normalise(std::span<const double> joint) override {
    const DeviceTensor& first = first_->normalise(joint);
    const DeviceTensor& second = second_->normalise(joint);
    const bool ready = ++normalised_ == batch_norms(spec_.stage);
    return compared(first, second, {0, ready ? spec_.batch : 0});
  }
  std::vector<float> slopes(const DeviceTensor& output_gradient) override {
    const CheckTensor& both = own(output_gradient);
    second_->slopes(both.second());
    return first_->slopes(both.first());
  }
  void take_slopes(std::span<const double> joint) override {
    first_->take_slopes(joint);
    second_->take_slopes(joint);
  }
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient, SampleRange samples) override {
    const CheckTensor& both = own(output_gradient);
    const DeviceTensor* ours = first_->backward_input(both.first(), samples);
    const DeviceTensor* theirs = second_->backward_input(both.second(), samples);
    if (ours == nullptr) return nullptr;
    const Tensor host = to_host(*ours, samples);
    compare(host, to_host(*theirs, samples), subject_, "input gradient", 0.01, samples.first);
    input_gradient_->write(samples, host.span());
    return input_gradient_.get();
  }
  void backward_filters() override {
    first_->backward_filters();
    second_->backward_filters();
    const std::vector<Tensor> ours = first_->gradients();
    const std::vector<Tensor> theirs = second_->gradients();
    // The gradient of a bias before a batch norm is zero except for rounding.
    const double least = theirs.empty() ? 0.0 : 1e-2 * root_mean_square(theirs.front());
    for (std::size_t p = 0; p < ours.size(); ++p) {
      compare(ours[p], theirs[p], subject_, fmt::format("gradient of {}", parameters_[p].name), 0.01, 0, least);
    }
  }
  void update(const UpdateStep& step) override {
    first_->update(step);
    second_->update(step);
    const ShardState ours = first_->state();
    const ShardState theirs = second_->state();
    for (std::size_t p = 0; p < ours.parameters.size(); ++p) {
      compare(ours.parameters[p].value, theirs.parameters[p].value, subject_,
              fmt::format("{} after the update", parameters_[p].name), 0.01);
    }
    second_->set_state(ours);
  }
  bool finite() const override { return first_->finite() && second_->finite(); }
  ShardState state() const override { return first_->state(); }
  void set_state(const ShardState& state) override {
    first_->set_state(state);
    second_->set_state(state);
  }
  std::vector<Tensor> gradients() const override { return first_->gradients(); }
  void set_gradients(const std::vector<Tensor>& gradients) override {
    first_->set_gradients(gradients);
    second_->set_gradients(gradients);
  }

 private:
  const DeviceTensor& compared(const DeviceTensor& first, const DeviceTensor& second, SampleRange ready) {
    if (ready.count == 0) return *output_;
    const Tensor ours = to_host(first, ready);
    compare(ours, to_host(second, ready), subject_, "forward", 0.0, ready.first);
    output_->write(ready, ours.span());
    return *output_;
  }
  static const CheckTensor& own(const DeviceTensor& tensor) {
    const auto* both = dynamic_cast<const CheckTensor*>(&tensor);
    invariant(both != nullptr, "the tensor belongs to this device");
    return *both;
  }

  ShardSpec spec_;
  Subject subject_;
  std::vector<ParameterSpec> parameters_;
  std::unique_ptr<Shard> first_;
  std::unique_ptr<Shard> second_;
  int normalised_ = 0;  ///< batch norms whose joint moments the last forward has taken
  std::unique_ptr<CheckTensor> output_;
  std::unique_ptr<CheckTensor> input_gradient_;
  mutable std::vector<std::unique_ptr<CheckTensor>> added_gradients_;
};

class CheckDevice : public Device {
 public:
  CheckDevice(std::unique_ptr<Device> first, std::unique_ptr<Device> second)
      : first_(std::move(first)), second_(std::move(second)), info_(first_->info()) {
    info_.name = fmt::format("check:{},{}", first_->info().name, second_->info().name);
    info_.rounds_correctly = info_.rounds_correctly && second_->info().rounds_correctly;
    info_.memory_factor += second_->info().memory_factor;  // counted as if both used the same memory
    info_.description = fmt::format("{}, checked against {}", first_->info().description, second_->info().description);
  }
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Shard> compile(const ShardSpec& spec) override {
    return std::make_unique<CheckShard>(*first_, *second_, spec);
  }
  std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) override {
    return std::make_unique<CheckTensor>(first_->make_tensor(shape), second_->make_tensor(shape));
  }
  void finish() override {
    first_->finish();
    second_->finish();
  }

 private:
  std::unique_ptr<Device> first_;
  std::unique_ptr<Device> second_;
  DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Device> make_check_device(std::unique_ptr<Device> first, std::unique_ptr<Device> second) {
  return std::make_unique<CheckDevice>(std::move(first), std::move(second));
}

}  // namespace convoy
