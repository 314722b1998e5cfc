// Parameters on a GPU, and batch norm.

#include "kernels/cuda/layers.hpp"

namespace convoy {

void CudaParameter::update(cuda::Gpu& gpu, const UpdateStep& step, int* broken) const {
  if (gradient == nullptr) return gpu.run(cuda::FindBroken{values.data(), broken}, values.size());
  gpu.run(cuda::Update{static_cast<int>(step.optimizer), step.gradient_scale, step.learning_rate, step.momentum,
                       step.weight_decay, step.beta2, step.epsilon, step.learning_rate / step.correction1,
                       1.0F / step.correction2, gradient->data(), moments.front()->data(), moments.back()->data(),
                       values.data(), broken},
          values.size());
}

Parameter CudaParameter::to_host() const {
  Parameter host{values.to_host(), {}};
  for (const auto& moment : moments) host.moments.push_back(moment->to_host());
  return host;
}

void CudaParameter::take(const Parameter& from) {
  invariant(from.value.shape() == values.shape(), "the state has the shard's shape");
  values.write(from.value.span());
  for (std::size_t m = 0; m < moments.size(); ++m) moments[m]->write(from.moments.at(m).span());
}

namespace {

class CudaBatchNorm : public CudaLayer {
 public:
  CudaBatchNorm(cuda::Gpu& gpu, const BatchNorm& layer, int moments, const CudaTensor& input, const std::string& what)
      : gpu_(gpu),
        layer_(layer),
        input_(input),
        output_(gpu, input.shape(), what),
        input_gradient_(gpu, input.shape(), what),
        weights_(gpu, {input.shape().c, 1}, true, moments, what),
        bias_(gpu, {input.shape().c, 1}, true, moments, what),
        running_mean_(gpu, {input.shape().c, 1}, false, 0, what),
        running_variance_(gpu, {input.shape().c, 1}, false, 0, what),
        sums_(gpu, {input.shape().c, 1}, what),
        squares_(gpu, {input.shape().c, 1}, what),
        mean_(gpu, {input.shape().c, 1}, what),
        inverse_(gpu, {input.shape().c, 1}, what) {}

  void forward(const Pass& pass, SampleRange samples) override {
    invariant(samples.count == input_.shape().n, "batch norm takes the whole batch");
    if (pass.training) {
      sum(input_, sums_);
      // The summands are written to the output tensor, which the output overwrites afterwards.
      gpu_.run(cuda::SquareDistances{channels(), places(), count(), input_.data(), sums_.data(), output_.data()},
               input_.size());
      sum(output_, squares_);
    }
    gpu_.run(
        cuda::NormMoments{pass.training, count(), layer_.epsilon, layer_.momentum, sums_.data(), squares_.data(),
                          running_mean_.values.data(), running_variance_.values.data(), mean_.data(), inverse_.data()},
        channels());
    gpu_.run(cuda::Normalise{channels(), places(), input_.data(), mean_.data(), inverse_.data(), weights_.values.data(),
                             bias_.values.data(), output_.data()},
             input_.size());
  }
  const CudaTensor& output() const override { return output_; }
  const CudaTensor& backward(const CudaTensor& gradient, SampleRange) override {
    sum(gradient, *bias_.gradient);
    gpu_.run(cuda::NormProducts{channels(), places(), input_.data(), gradient.data(), mean_.data(), inverse_.data(),
                                input_gradient_.data()},
             input_.size());
    sum(input_gradient_, *weights_.gradient);
    gpu_.run(cuda::NormGradient{channels(), places(), count(), input_.data(), gradient.data(), mean_.data(),
                                inverse_.data(), weights_.values.data(), bias_.gradient->data(),
                                weights_.gradient->data(), input_gradient_.data()},
             input_.size());
    return input_gradient_;
  }
  std::vector<CudaParameter*> parameters() override { return {&weights_, &bias_, &running_mean_, &running_variance_}; }

 private:
  int channels() const { return input_.shape().c; }
  int places() const { return input_.shape().h * input_.shape().w; }
  float count() const { return static_cast<float>(input_.shape().n) * static_cast<float>(places()); }
  void sum(const CudaTensor& maps, const CudaTensor& sums) {
    gpu_.sum_channels(maps.data(), input_.shape().n, channels(), places(), sums.data());
  }

  cuda::Gpu& gpu_;
  BatchNorm layer_;
  const CudaTensor& input_;
  CudaTensor output_;
  CudaTensor input_gradient_;
  CudaParameter weights_, bias_, running_mean_, running_variance_;
  CudaTensor sums_, squares_, mean_, inverse_;
};

}  // namespace

std::unique_ptr<CudaLayer> make_cuda_batch_norm(cuda::Gpu& gpu, const BatchNorm& layer, int moments,
                                                const CudaTensor& input, const std::string& what) {
  return std::make_unique<CudaBatchNorm>(gpu, layer, moments, input, what);
}

}  // namespace convoy
