#include "kernels/reference/device.hpp"

#include <algorithm>

namespace convoy {
namespace {

/// Calls visit(y, x, r, s) for every input element (y, x) inside the borders that the window at output (oy, ox) covers
/// with its element (r, s).
template <class Visit>
void for_each_tap(const Stage& stage, int oy, int ox, Visit visit) {
  const Convolution& conv = stage.conv;
  for (int r = 0; r < conv.kernel_h; ++r) {
    const int y = oy * conv.stride_h - conv.pad.top + r * conv.dilation_h;
    if (y < 0 || y >= stage.height) continue;
    for (int s = 0; s < conv.kernel_w; ++s) {
      const int x = ox * conv.stride_w - conv.pad.left + s * conv.dilation_w;
      if (x >= 0 && x < stage.width) visit(y, x, r, s);
    }
  }
}

template <class T>
class ReferenceDevice : public Device {
 public:
  ReferenceDevice(const char* name, const char* description) {
    info_.name = name;
    info_.description = description;
  }
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Shard> compile(const ShardSpec& spec) override { return std::make_unique<ReferenceShard<T>>(spec); }
  std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) override {
    return std::make_unique<HostTensor<T>>(shape);
  }

 private:
  DeviceInfo info_;
};

}  // namespace

template <class T>
ReferenceShard<T>::ReferenceShard(const ShardSpec& spec)
    : parameters(spec.stage, spec.filters.count),
      spec_(spec),
      layers_(spec, &parameters),
      output_(output_shape(spec.stage, spec.batch, spec.filters.count)),
      weightless_(spec.stage, spec.filters, spec.batch),
      input_gradient_(input_shape(spec.stage, spec.input_gradient ? spec.batch : 0)) {
  for (const Shape& shape : added_shapes(spec.stage, spec.batch, spec.filters.count)) {
    added_gradients_.emplace_back(shape);
  }
}

template <class T>
std::unique_ptr<DeviceTensor> ReferenceShard<T>::make_added(std::size_t index) const {
  return std::make_unique<HostTensor<T>>(added_gradients_.at(index).shape());
}

template <class T>
std::unique_ptr<DeviceTensor> ReferenceShard<T>::make_input() const {
  return std::make_unique<HostTensor<T>>(input_shape(spec_.stage, spec_.batch));
}

template <class T>
std::unique_ptr<DeviceTensor> ReferenceShard<T>::make_output_gradient() const {
  return std::make_unique<HostTensor<T>>(output_.shape());
}

template <class T>
const DeviceTensor& ReferenceShard<T>::forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) {
  input_ = &host_values<T>(input);
  invariant(input_->shape() == input_shape(spec_.stage, spec_.batch), "the input has the shard's shape");
  convolve(samples);
  const SampleRange done = layers_.forward(samples, pass, serially);
  std::ranges::copy(layers_.output().samples(done.first, done.count),
                    output_.values.samples(done.first, done.count).begin());
  if (!pass.training) input_ = nullptr;
  return output_;
}

template <class T>
void ReferenceShard<T>::convolve(SampleRange samples) {
  BasicTensor<T>& out = layers_.input();
  if (spec_.stage.kind != StageKind::convolution) return weightless_.forward(*input_, samples, out);
  const Shape shape = out.shape();
  const BasicTensor<T>& weights = parameters.weights().value;
  const HostParameter<T>* bias = parameters.bias();
  for (int n = samples.first; n < samples.first + samples.count; ++n) {
    for (int k = 0; k < shape.c; ++k) {
      const FilterRange from = channels_of(k);
      for (int oy = 0; oy < shape.h; ++oy) {
        for (int ox = 0; ox < shape.w; ++ox) {
          double sum = bias != nullptr ? static_cast<double>(bias->value.at(k, 0)) : 0.0;
          for (int c = 0; c < from.count; ++c) {
            for_each_tap(spec_.stage, oy, ox, [&](int y, int x, int r, int s) {
              sum += static_cast<double>(input_->at(n, from.first + c, y, x)) *
                     static_cast<double>(weights.at(k, c, r, s));
            });
          }
          out.at(n, k, oy, ox) = static_cast<T>(sum);
        }
      }
    }
  }
}

template <class T>
const DeviceTensor* ReferenceShard<T>::backward_input(const DeviceTensor& output_gradient, SampleRange samples) {
  take_gradient(output_gradient, spec_.read_by_backward(samples));
  give_added_gradients(layers_.backward(samples, serially));
  if (!spec_.input_gradient) return nullptr;
  find_input_gradient(samples);
  return &input_gradient_;
}

template <class T>
void ReferenceShard<T>::take_gradient(const DeviceTensor& output_gradient, SampleRange samples) {
  invariant(input_ != nullptr, "backward follows a forward in training");
  const BasicTensor<T>& gradient = host_values<T>(output_gradient);
  invariant(gradient.shape() == output_.shape(), "the gradient has the shape of the shard's output");
  std::ranges::copy(gradient.samples(samples.first, samples.count),
                    layers_.output_gradient().samples(samples.first, samples.count).begin());
}

template <class T>
void ReferenceShard<T>::give_added_gradients(SampleRange samples) {
  for (std::size_t i = 0; i < added_gradients_.size(); ++i) {
    std::ranges::copy(layers_.added_gradient(i).samples(samples.first, samples.count),
                      added_gradients_[i].values.samples(samples.first, samples.count).begin());
  }
}

template <class T>
const DeviceTensor& ReferenceShard<T>::normalise(std::span<const double> joint) {
  layers_.normalise(joint, serially);
  std::ranges::copy(layers_.output().span(), output_.values.data());
  return output_;
}

template <class T>
std::vector<float> ReferenceShard<T>::slopes(const DeviceTensor& output_gradient) {
  take_gradient(output_gradient, {0, spec_.batch});
  return layers_.slopes(serially);
}

template <class T>
void ReferenceShard<T>::take_slopes(std::span<const double> joint) {
  layers_.take_slopes(joint, serially);
  give_added_gradients({0, spec_.batch});
}

template <class T>
void ReferenceShard<T>::backward_filters() {
  if (spec_.stage.kind != StageKind::convolution || !parameters.weights().trained()) return;
  const BasicTensor<T>& dy = layers_.input_gradient();
  const Shape shape = dy.shape();
  BasicTensor<double> dw(parameters.weights().value.shape(), 0.0);
  for (int k = 0; k < shape.c; ++k) {
    double db = 0.0;
    const FilterRange from = channels_of(k);
    for (int n = 0; n < shape.n; ++n) {
      for (int oy = 0; oy < shape.h; ++oy) {
        for (int ox = 0; ox < shape.w; ++ox) {
          const auto slope = static_cast<double>(dy.at(n, k, oy, ox));
          db += slope;
          for (int c = 0; c < from.count; ++c) {
            for_each_tap(spec_.stage, oy, ox, [&](int y, int x, int r, int s) {
              dw.at(k, c, r, s) += slope * static_cast<double>(input_->at(n, from.first + c, y, x));
            });
          }
        }
      }
    }
    if (parameters.bias() != nullptr) parameters.bias()->gradient.at(k, 0) = static_cast<T>(db);
  }
  std::transform(dw.span().begin(), dw.span().end(), parameters.weights().gradient.data(),
                 [](double value) { return static_cast<T>(value); });
}

template <class T>
void ReferenceShard<T>::find_input_gradient(SampleRange samples) {
  const BasicTensor<T>& dy = layers_.input_gradient();
  if (spec_.stage.kind != StageKind::convolution) {
    return weightless_.backward(*input_, dy, samples, input_gradient_.values);
  }
  const Shape shape = dy.shape();
  const BasicTensor<T>& weights = parameters.weights().value;
  BasicTensor<double> dx(input_gradient_.shape(), 0.0);
  for (int n = samples.first; n < samples.first + samples.count; ++n) {
    for (int k = 0; k < shape.c; ++k) {
      const FilterRange from = channels_of(k);
      for (int oy = 0; oy < shape.h; ++oy) {
        for (int ox = 0; ox < shape.w; ++ox) {
          const auto slope = static_cast<double>(dy.at(n, k, oy, ox));
          for (int c = 0; c < from.count; ++c) {
            for_each_tap(spec_.stage, oy, ox, [&](int y, int x, int r, int s) {
              dx.at(n, from.first + c, y, x) += slope * static_cast<double>(weights.at(k, c, r, s));
            });
          }
        }
      }
    }
  }
  std::ranges::transform(dx.samples(samples.first, samples.count),
                         input_gradient_.values.samples(samples.first, samples.count).begin(),
                         [](double value) { return static_cast<T>(value); });
}

template class ReferenceShard<float>;
template class ReferenceShard<double>;

std::unique_ptr<Device> make_reference_device() {
  return std::make_unique<ReferenceDevice<float>>("reference", "plain loops, float, sums in double, 1 thread");
}

std::unique_ptr<Device> make_reference64_device() {
  return std::make_unique<ReferenceDevice<double>>("reference64", "plain loops, double, 1 thread");
}

}  // namespace convoy
