#include "cl/layers.hpp"

#include "kernels/host/activation.hpp"

namespace convoy {

namespace {

class ClActivation : public ClLayer {
 public:
  /// Set `fused` where the input already holds the activation's output.
  ClActivation(ClShared& shared, const Activation& activation, const ClTensor& input, bool fused,
               const std::string& what)
      : shared_(shared),
        activation_(code_of(activation)),
        slope_(activation.alpha),
        input_(input),
        input_gradient_(shared, input.shape(), what) {
    if (!fused) own_output_ = std::make_unique<ClTensor>(shared, input.shape(), what);
  }

  void forward(const Pass&, SampleRange samples) override {
    if (own_output_ == nullptr) return;
    const Shape shape = input_.shape();
    shared_.launch_over_maps(shared_.layers.apply_activation, shape, samples, input_.buffer(), own_output_->buffer(),
                             shape.h, shape.w, activation_, slope_);
  }
  const ClTensor& output() const override { return own_output_ == nullptr ? input_ : *own_output_; }
  const ClBuffer& backward(const ClBuffer& gradient, SampleRange samples) override {
    const Shape shape = input_.shape();
    shared_.launch_over_maps(shared_.layers.activation_gradient, shape, samples, output().buffer(), gradient,
                             input_gradient_.buffer(), shape.h, shape.w, activation_, slope_);
    return input_gradient_.buffer();
  }

 private:
  ClShared& shared_;
  int activation_;
  float slope_;
  const ClTensor& input_;
  ClTensor input_gradient_;
  std::unique_ptr<ClTensor> own_output_;
};

/// An activation of activation.cl.
class ClApartActivation : public ClLayer {
 public:
  ClApartActivation(ClShared& shared, const Activation& activation, const ClTensor& input, const std::string& what)
      : shared_(shared),
        activation_(activation),
        kernels_(shared.activation_kernels(code_of(activation))),
        input_(input),
        output_(shared, input.shape(), what),
        input_gradient_(shared, input.shape(), what) {}

  void forward(const Pass&, SampleRange samples) override {
    const Shape shape = input_.shape();
    shared_.launch_over_maps(kernels_.activate, shape, samples, input_.buffer(), output_.buffer(), shape.h, shape.w,
                             activation_.alpha, activation_.beta);
  }
  const ClTensor& output() const override { return output_; }
  const ClBuffer& backward(const ClBuffer& gradient, SampleRange samples) override {
    const Shape shape = input_.shape();
    const ClTensor& kept = derivative_from_output(activation_.kind) ? output_ : input_;
    shared_.launch_over_maps(kernels_.gradient, shape, samples, kept.buffer(), gradient, input_gradient_.buffer(),
                             shape.h, shape.w, activation_.alpha, activation_.beta);
    return input_gradient_.buffer();
  }

 private:
  ClShared& shared_;
  Activation activation_;
  ActivationKernels kernels_;
  const ClTensor& input_;
  ClTensor output_;
  ClTensor input_gradient_;
};

class ClFusedPooling : public ClLayer {
 public:
  ClFusedPooling(ClShared& shared, const Shape& from, const ClTensor& output, const ClBuffer& places,
                 const std::string& what)
      : shared_(shared), output_(output), places_(places), input_gradient_(shared, from, what) {}

  void forward(const Pass&, SampleRange) override {}
  const ClTensor& output() const override { return output_; }
  const ClBuffer& backward(const ClBuffer& gradient, SampleRange samples) override {
    const Shape in = input_gradient_.shape();
    const Shape out = output_.shape();
    shared_.launch_over_maps(shared_.layers.fused_pool_gradient, in, samples, gradient, places_,
                             input_gradient_.buffer(), in.h, in.w, out.h, out.w);
    return input_gradient_.buffer();
  }

 private:
  ClShared& shared_;
  const ClTensor& output_;
  const ClBuffer& places_;
  ClTensor input_gradient_;
};

class ClPooling : public ClLayer {
 public:
  ClPooling(ClShared& shared, const Pooling& pool, const ClTensor& input, bool after_relu, const std::string& what)
      : shared_(shared),
        pool_(pool),
        after_relu_(after_relu ? 1 : 0),
        input_(input),
        output_(shared, pooled_shape(pool, input.shape()), what),
        input_gradient_(shared, input.shape(), what) {
    const LayerKernels& layers = shared.layers;
    const bool max = pool.kind == PoolKind::max;
    forward_ = (max ? layers.max_pool : layers.average_pool).timed_apart();
    backward_ = (max ? layers.max_pool_gradient : layers.average_pool_gradient).timed_apart();
    if (max) places_ = shared.context.allocate(output_.shape().size() * sizeof(cl_int), what);
  }

  void forward(const Pass&, SampleRange samples) override {
    const Shape in = input_.shape();
    const Shape out = output_.shape();
    const Pooling& p = pool_;
    if (p.kind == PoolKind::max) {
      shared_.launch_over_maps(forward_, out, samples, input_.buffer(), output_.buffer(), places_, in.h, in.w, out.h,
                               out.w, p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.pad.top, p.pad.left,
                               after_relu_, p.dilation_h, p.dilation_w);
    } else {
      shared_.launch_over_maps(forward_, out, samples, input_.buffer(), output_.buffer(), in.h, in.w, out.h, out.w,
                               p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.pad.top, p.pad.left, divisor());
    }
  }
  const ClTensor& output() const override { return output_; }
  const ClBuffer& backward(const ClBuffer& gradient, SampleRange samples) override {
    const Shape in = input_.shape();
    const Shape out = output_.shape();
    const Pooling& p = pool_;
    if (p.kind == PoolKind::max) {
      shared_.launch_over_maps(backward_, in, samples, gradient, places_, input_gradient_.buffer(), in.h, in.w, out.h,
                               out.w, p.reach_h(), p.reach_w(), p.stride_h, p.stride_w, p.pad.top, p.pad.left);
    } else {
      shared_.launch_over_maps(backward_, in, samples, gradient, input_gradient_.buffer(), in.h, in.w, out.h, out.w,
                               p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.pad.top, p.pad.left, divisor());
    }
    return input_gradient_.buffer();
  }

 private:
  /// Returns the number by which an average divides a sum; 0: the number of elements inside the map.
  int divisor() const { return pool_.kind == PoolKind::average_with_padding ? pool_.kernel_h * pool_.kernel_w : 0; }

  ClShared& shared_;
  ClKernel forward_, backward_;  ///< timed apart, because the cost of a work-item depends on the window
  Pooling pool_;
  int after_relu_;
  const ClTensor& input_;
  ClTensor output_;
  ClTensor input_gradient_;
  ClBuffer places_;
};

class ClDropout : public ClLayer {
 public:
  ClDropout(ClShared& shared, const Dropout& dropout, const ClTensor& input, const Origin& origin,
            const std::string& what)
      : shared_(shared),
        kernels_(shared.dropout_kernels()),
        dropout_(dropout),
        origin_(origin),
        input_(input),
        output_(shared, input.shape(), what),
        input_gradient_(shared, input.shape(), what) {}

  void forward(const Pass& pass, SampleRange samples) override {
    seed_ = pass.seed;
    if (pass.training) return drop_out(input_.buffer(), output_.buffer(), samples);
    shared_.copy_maps(input_.buffer(), output_.buffer(), input_.shape(), samples);
  }
  const ClTensor& output() const override { return output_; }
  /// Draws the mask of the last forward again.
  const ClBuffer& backward(const ClBuffer& gradient, SampleRange samples) override {
    drop_out(gradient, input_gradient_.buffer(), samples);
    return input_gradient_.buffer();
  }

 private:
  void drop_out(const ClBuffer& from, const ClBuffer& to, SampleRange samples) {
    const Shape shape = input_.shape();
    shared_.launch_over_maps(kernels_.drop_out, shape, samples, from, to, shape.c, shape.h, shape.w,
                             static_cast<cl_uint>(seed_), static_cast<cl_uint>(seed_ >> 32), dropout_.stream,
                             dropout_.rate, 1.0F / (1.0F - dropout_.rate), origin_.first_filter, origin_.first_sample,
                             origin_.micro_batch, origin_.whole_micro_batch, dropout_.spatial ? 1 : 0);
  }

  ClShared& shared_;
  DropoutKernels kernels_;
  Dropout dropout_;
  Origin origin_;
  const ClTensor& input_;
  std::uint64_t seed_ = 0;  ///< of the last forward
  ClTensor output_;
  ClTensor input_gradient_;
};

class ClAddition : public ClJoin {
 public:
  ClAddition(ClShared& shared, const ClTensor& input, const std::string& what)
      : shared_(shared), input_(input), output_(shared, input.shape(), what), gradient_(shared, input.shape(), what) {}

  void connect(const ClTensor& added) override { added_ = &added; }
  void forward(const Pass&, SampleRange samples) override {
    invariant(added_ != nullptr, "connect is called before forward");
    const Shape shape = input_.shape();
    shared_.launch_over_maps(shared_.layers.add, shape, samples, input_.buffer(), added_->buffer(), output_.buffer(),
                             shape.h, shape.w);
  }
  const ClTensor& output() const override { return output_; }
  const ClBuffer& backward(const ClBuffer& gradient, SampleRange samples) override {
    shared_.copy_maps(gradient, gradient_.buffer(), input_.shape(), samples);
    return gradient_.buffer();
  }
  /// The gradient is the same for both addends.
  const ClTensor& taken_gradient() const override { return gradient_; }

 private:
  ClShared& shared_;
  const ClTensor& input_;
  const ClTensor* added_ = nullptr;
  ClTensor output_;
  ClTensor gradient_;
};

class ClMultiplication : public ClJoin {
 public:
  ClMultiplication(ClShared& shared, const Multiply& multiply, const ClTensor& input, const std::string& what)
      : shared_(shared),
        by_points_(multiply.by_points),
        sum_products_(shared.layers.sum_products.timed_apart()),
        input_(input),
        output_(shared, input.shape(), what),
        input_gradient_(shared, input.shape(), what),
        factor_gradient_(shared, by_points_ ? Shape{input.shape().n, input.shape().c, 1, 1} : input.shape(), what) {}

  void connect(const ClTensor& maps) override { factors_ = &maps; }
  void forward(const Pass&, SampleRange samples) override {
    invariant(factors_ != nullptr, "connect is called before forward");
    multiply(input_.buffer(), *factors_, output_, samples);
  }
  const ClTensor& output() const override { return output_; }
  const ClBuffer& backward(const ClBuffer& gradient, SampleRange samples) override {
    const Shape shape = input_.shape();
    multiply(gradient, *factors_, input_gradient_, samples);
    if (by_points_) {
      // A work-item sums a map.
      shared_.launch_over_maps(sum_products_, factor_gradient_.shape(), samples, gradient, input_.buffer(),
                               factor_gradient_.buffer(), shape.h * shape.w);
    } else {
      multiply(gradient, input_, factor_gradient_, samples);
    }
    return input_gradient_.buffer();
  }
  const ClTensor& taken_gradient() const override { return factor_gradient_; }

 private:
  void multiply(const ClBuffer& from, const ClTensor& factors, const ClTensor& to, SampleRange samples) {
    const Shape shape = input_.shape();
    const ClKernel& kernel = by_points_ ? shared_.layers.multiply_by_points : shared_.layers.multiply;
    shared_.launch_over_maps(kernel, shape, samples, from, factors.buffer(), to.buffer(), shape.h, shape.w);
  }

  ClShared& shared_;
  bool by_points_;
  ClKernel sum_products_;  ///< timed apart, because a work-item sums a map of this size
  const ClTensor& input_;
  const ClTensor* factors_ = nullptr;
  ClTensor output_;
  ClTensor input_gradient_;
  ClTensor factor_gradient_;
};

}  // namespace

std::unique_ptr<ClJoin> make_cl_add(ClShared& shared, const ClTensor& input, const std::string& what) {
  return std::make_unique<ClAddition>(shared, input, what);
}

std::unique_ptr<ClJoin> make_cl_multiply(ClShared& shared, const Multiply& multiply, const ClTensor& input,
                                         const std::string& what) {
  return std::make_unique<ClMultiplication>(shared, multiply, input, what);
}

std::unique_ptr<ClLayer> make_cl_layer(ClShared& shared, const ChannelLayer& layer, const ClTensor& input,
                                       const Origin& origin, bool after_relu, const std::string& what) {
  if (const auto* activation = std::get_if<Activation>(&layer)) {
    if (!has_plain_kernel(*activation)) return std::make_unique<ClApartActivation>(shared, *activation, input, what);
    return std::make_unique<ClActivation>(shared, *activation, input, false, what);
  }
  if (const auto* pool = std::get_if<Pooling>(&layer)) {
    return std::make_unique<ClPooling>(shared, *pool, input, after_relu, what);
  }
  return std::make_unique<ClDropout>(shared, std::get<Dropout>(layer), input, origin, what);
}

std::unique_ptr<ClLayer> make_cl_fused_pooling(ClShared& shared, const Shape& from, const ClTensor& output,
                                               const ClBuffer& places, const std::string& what) {
  return std::make_unique<ClFusedPooling>(shared, from, output, places, what);
}

std::unique_ptr<ClLayer> make_cl_fused_activation(ClShared& shared, const Activation& activation,
                                                  const ClTensor& output, const std::string& what) {
  return std::make_unique<ClActivation>(shared, activation, output, true, what);
}

}  // namespace convoy
