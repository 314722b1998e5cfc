#include "kernels/cuda/layers.hpp"

#include "kernels/host/activation.hpp"

namespace convoy {

void CudaTensor::take_channels(const DeviceTensor& from, FilterRange channels, int first, bool added,
                               SampleRange samples) {
  const auto* ours = dynamic_cast<const CudaTensor*>(&from);
  invariant(ours != nullptr && &ours->gpu() == &gpu_, "the tensor belongs to this device");
  const int places = shape_.h * shape_.w;
  const int run = channels.count * places;
  gpu_.run(cuda::TakeChannels{run, ours->shape().c * places, channels.first * places, shape_.c * places, first * places,
                              added, ours->data(samples), data(samples)},
           samples.count * run);
}

bool CudaTensor::write_pixels(SampleRange samples, std::span<const std::uint8_t> pixels, const Normaliser& normaliser) {
  invariant(pixels.size() == size_of(samples), "the pixels fill the samples");
  const std::span<const float> table = normaliser.table();
  if (pixels_.data() == nullptr) {
    pixels_ = {gpu_, shape_.size(), "the pixels of images"};
    table_ = {gpu_, table.size(), "the levels of pixels"};
  }
  std::uint8_t* to = pixels_.data() + static_cast<std::size_t>(samples.first) * shape_.sample_size();
  gpu_.write_bytes(to, pixels.data(), pixels.size_bytes());
  gpu_.write_bytes(table_.data(), table.data(), table.size_bytes());
  gpu_.run(cuda::NormalisePixels{shape_.c, shape_.h * shape_.w, to, table_.data(), data(samples)},
           static_cast<int>(pixels.size()));
  return true;
}

namespace {

/// Returns the number of elements as an int, the type that kernels count in.
int size_of(const CudaTensor& tensor, SampleRange samples) { return static_cast<int>(tensor.size_of(samples)); }

class CudaActivation : public CudaLayer {
 public:
  /// Set `fused` where the input already holds the activation's output.
  CudaActivation(cuda::Gpu& gpu, const Activation& activation, const CudaTensor& input, bool fused,
                 const std::string& what)
      : gpu_(gpu),
        activation_(code_of(activation)),
        slope_(activation.alpha),
        input_(input),
        input_gradient_(gpu, input.shape(), what) {
    if (!fused) own_output_ = std::make_unique<CudaTensor>(gpu, input.shape(), what);
  }

  void forward(const Pass&, SampleRange samples) override {
    if (own_output_ == nullptr) return;
    gpu_.run(cuda::Activate{activation_, slope_, input_.data(samples), own_output_->data(samples)},
             size_of(input_, samples));
  }
  const CudaTensor& output() const override { return own_output_ == nullptr ? input_ : *own_output_; }
  const CudaTensor& backward(const CudaTensor& gradient, SampleRange samples) override {
    gpu_.run(cuda::ActivateGradient{activation_, slope_, output().data(samples), gradient.data(samples),
                                    input_gradient_.data(samples)},
             size_of(input_, samples));
    return input_gradient_;
  }

 private:
  cuda::Gpu& gpu_;
  int activation_;
  float slope_;
  const CudaTensor& input_;
  CudaTensor input_gradient_;
  std::unique_ptr<CudaTensor> own_output_;
};

/// An activation of cuda::activate_apart().
class CudaApartActivation : public CudaLayer {
 public:
  CudaApartActivation(cuda::Gpu& gpu, const Activation& activation, const CudaTensor& input, const std::string& what)
      : gpu_(gpu),
        activation_(activation),
        input_(input),
        output_(gpu, input.shape(), what),
        input_gradient_(gpu, input.shape(), what) {}

  void forward(const Pass&, SampleRange samples) override {
    gpu_.run(cuda::ActivateApart{code_of(activation_), activation_.alpha, activation_.beta, input_.data(samples),
                                 output_.data(samples)},
             size_of(input_, samples));
  }
  const CudaTensor& output() const override { return output_; }
  const CudaTensor& backward(const CudaTensor& gradient, SampleRange samples) override {
    const CudaTensor& kept = derivative_from_output(activation_.kind) ? output_ : input_;
    gpu_.run(cuda::ActivateApartGradient{code_of(activation_), activation_.alpha, activation_.beta, kept.data(samples),
                                         gradient.data(samples), input_gradient_.data(samples)},
             size_of(input_, samples));
    return input_gradient_;
  }

 private:
  cuda::Gpu& gpu_;
  Activation activation_;
  const CudaTensor& input_;
  CudaTensor output_;
  CudaTensor input_gradient_;
};

class CudaPooling : public CudaLayer {
 public:
  CudaPooling(cuda::Gpu& gpu, const Pooling& pool, const CudaTensor& input, bool after_relu, const std::string& what)
      : gpu_(gpu),
        kind_(pool.kind),
        divisor_(pool.kind == PoolKind::average_with_padding ? pool.kernel_h * pool.kernel_w : 0),
        after_relu_(after_relu),
        input_(input),
        output_(gpu, pooled_shape(pool, input.shape()), what),
        input_gradient_(gpu, input.shape(), what),
        window_{.height = input.shape().h,
                .width = input.shape().w,
                .out_height = output_.shape().h,
                .out_width = output_.shape().w,
                .kernel_h = pool.kernel_h,
                .kernel_w = pool.kernel_w,
                .stride_h = pool.stride_h,
                .stride_w = pool.stride_w,
                .top = pool.pad.top,
                .left = pool.pad.left,
                .dilation_h = pool.dilation_h,
                .dilation_w = pool.dilation_w} {
    if (kind_ == PoolKind::max) places_ = {gpu, output_.shape().size(), what};
  }

  void forward(const Pass&, SampleRange samples) override {
    if (kind_ == PoolKind::max) {
      gpu_.run(cuda::MaxPool{window_, after_relu_, input_.data(samples), output_.data(samples), places(samples)},
               size_of(output_, samples));
    } else {
      gpu_.run(cuda::AveragePool{window_, divisor_, input_.data(samples), output_.data(samples)},
               size_of(output_, samples));
    }
  }
  const CudaTensor& output() const override { return output_; }
  const CudaTensor& backward(const CudaTensor& gradient, SampleRange samples) override {
    if (kind_ == PoolKind::max) {
      gpu_.run(cuda::MaxPoolGradient{window_, gradient.data(samples), places(samples), input_gradient_.data(samples)},
               size_of(input_, samples));
    } else {
      gpu_.run(cuda::AveragePoolGradient{window_, divisor_, gradient.data(samples), input_gradient_.data(samples)},
               size_of(input_, samples));
    }
    return input_gradient_;
  }

 private:
  int* places(SampleRange samples) const {
    return places_.data() + static_cast<std::size_t>(samples.first) * output_.shape().sample_size();
  }

  cuda::Gpu& gpu_;
  PoolKind kind_;
  int divisor_;
  bool after_relu_;
  const CudaTensor& input_;
  CudaTensor output_;
  CudaTensor input_gradient_;
  cuda::Window window_;
  cuda::Memory<int> places_;
};

/// Each pass draws the factors anew, because the generator is counter-based and gives the same numbers on every
/// machine.
class CudaDropout : public CudaLayer {
 public:
  CudaDropout(cuda::Gpu& gpu, const Dropout& dropout, const CudaTensor& input, const Origin& origin,
              const std::string& what)
      : gpu_(gpu),
        dropout_(dropout),
        origin_(origin),
        input_(input),
        output_(gpu, input.shape(), what),
        input_gradient_(gpu, input.shape(), what) {}

  void forward(const Pass& pass, SampleRange samples) override {
    if (!pass.training) {
      return gpu_.run(cuda::Copy{input_.data(samples), output_.data(samples)}, size_of(input_, samples));
    }
    seed_ = pass.seed;
    drop(input_, output_, samples);
  }
  const CudaTensor& output() const override { return output_; }
  const CudaTensor& backward(const CudaTensor& gradient, SampleRange samples) override {
    drop(gradient, input_gradient_, samples);
    return input_gradient_;
  }

 private:
  void drop(const CudaTensor& from, const CudaTensor& to, SampleRange samples) {
    gpu_.run(cuda::Drop{seed_, dropout_.stream, dropout_.rate, dropout_.spatial, input_.shape().c,
                        input_.shape().h * input_.shape().w, samples.first, origin_.first_filter, origin_.first_sample,
                        origin_.micro_batch, origin_.whole_micro_batch, from.data(samples), to.data(samples)},
             size_of(input_, samples));
  }

  cuda::Gpu& gpu_;
  Dropout dropout_;
  Origin origin_;
  const CudaTensor& input_;
  CudaTensor output_;
  CudaTensor input_gradient_;
  std::uint64_t seed_ = 0;  ///< of the last pass in training
};

class CudaAddition : public CudaJoin {
 public:
  CudaAddition(cuda::Gpu& gpu, const CudaTensor& input, const std::string& what)
      : gpu_(gpu), input_(input), output_(gpu, input.shape(), what), gradient_(gpu, input.shape(), what) {}

  void connect(const CudaTensor& maps) override { added_ = &maps; }
  void forward(const Pass&, SampleRange samples) override {
    invariant(added_ != nullptr, "connect is called before forward");
    gpu_.run(cuda::Sum{input_.data(samples), added_->data(samples), output_.data(samples)}, size_of(input_, samples));
  }
  const CudaTensor& output() const override { return output_; }
  const CudaTensor& backward(const CudaTensor& gradient, SampleRange samples) override {
    gpu_.run(cuda::Copy{gradient.data(samples), gradient_.data(samples)}, size_of(input_, samples));
    return gradient_;
  }
  /// The gradient is the same for both addends.
  const CudaTensor& taken_gradient() const override { return gradient_; }

 private:
  cuda::Gpu& gpu_;
  const CudaTensor& input_;
  const CudaTensor* added_ = nullptr;
  CudaTensor output_;
  CudaTensor gradient_;
};

class CudaProduct : public CudaJoin {
 public:
  CudaProduct(cuda::Gpu& gpu, const Multiply& multiply, const CudaTensor& input, const std::string& what)
      : gpu_(gpu),
        by_points_(multiply.by_points),
        places_(input.shape().h * input.shape().w),
        input_(input),
        output_(gpu, input.shape(), what),
        input_gradient_(gpu, input.shape(), what),
        factor_gradient_(gpu, by_points_ ? Shape{input.shape().n, input.shape().c, 1, 1} : input.shape(), what) {}

  void connect(const CudaTensor& maps) override { factors_ = &maps; }
  void forward(const Pass&, SampleRange samples) override {
    invariant(factors_ != nullptr, "connect is called before forward");
    multiply(input_, *factors_, output_, samples);
  }
  const CudaTensor& output() const override { return output_; }
  const CudaTensor& backward(const CudaTensor& gradient, SampleRange samples) override {
    multiply(gradient, *factors_, input_gradient_, samples);
    if (by_points_) {
      gpu_.run(cuda::SumProducts{places_, gradient.data(samples), input_.data(samples), factor_gradient_.data(samples)},
               size_of(factor_gradient_, samples));
    } else {
      multiply(gradient, input_, factor_gradient_, samples);
    }
    return input_gradient_;
  }
  const CudaTensor& taken_gradient() const override { return factor_gradient_; }

 private:
  void multiply(const CudaTensor& from, const CudaTensor& factors, const CudaTensor& to, SampleRange samples) {
    const int count = size_of(input_, samples);
    if (by_points_) {
      gpu_.run(cuda::MultiplyByPoints{places_, from.data(samples), factors.data(samples), to.data(samples)}, count);
    } else {
      gpu_.run(cuda::Multiply{from.data(samples), factors.data(samples), to.data(samples)}, count);
    }
  }

  cuda::Gpu& gpu_;
  bool by_points_;
  int places_;
  const CudaTensor& input_;
  const CudaTensor* factors_ = nullptr;
  CudaTensor output_;
  CudaTensor input_gradient_;
  CudaTensor factor_gradient_;
};

}  // namespace

std::unique_ptr<CudaJoin> make_cuda_add(cuda::Gpu& gpu, const CudaTensor& input, const std::string& what) {
  return std::make_unique<CudaAddition>(gpu, input, what);
}

std::unique_ptr<CudaJoin> make_cuda_multiply(cuda::Gpu& gpu, const Multiply& multiply, const CudaTensor& input,
                                             const std::string& what) {
  return std::make_unique<CudaProduct>(gpu, multiply, input, what);
}

std::unique_ptr<CudaLayer> make_cuda_layer(cuda::Gpu& gpu, const ChannelLayer& layer, const CudaTensor& input,
                                           const Origin& origin, bool after_relu, const std::string& what) {
  if (const auto* activation = std::get_if<Activation>(&layer)) {
    if (!has_plain_kernel(*activation)) return std::make_unique<CudaApartActivation>(gpu, *activation, input, what);
    return std::make_unique<CudaActivation>(gpu, *activation, input, false, what);
  }
  if (const auto* pool = std::get_if<Pooling>(&layer)) {
    return std::make_unique<CudaPooling>(gpu, *pool, input, after_relu, what);
  }
  return std::make_unique<CudaDropout>(gpu, std::get<Dropout>(layer), input, origin, what);
}

std::unique_ptr<CudaLayer> make_cuda_fused_activation(cuda::Gpu& gpu, const Activation& activation,
                                                      const CudaTensor& output, const std::string& what) {
  return std::make_unique<CudaActivation>(gpu, activation, output, true, what);
}

}  // namespace convoy
