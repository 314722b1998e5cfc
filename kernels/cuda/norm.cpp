// Parameters on a GPU, and batch norm.

#include "kernels/cuda/layers.hpp"
#include "kernels/joint_statistics.hpp"

namespace convoy {

void CudaParameter::update(cuda::Gpu& gpu, const UpdateStep& of_all, int* broken) const {
  const UpdateStep step = with_rate(of_all, rate);
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

class CudaBatchNorm : public CudaNorm {
 public:
  CudaBatchNorm(cuda::Gpu& gpu, const BatchNorm& layer, const NormSettings& settings, const CudaTensor& input,
                const std::string& what)
      : gpu_(gpu),
        layer_(layer),
        whole_batch_(settings.whole_batch),
        input_(input),
        output_(gpu, input.shape(), what),
        input_gradient_(gpu, input.shape(), what),
        weights_(gpu, {input.shape().c, 1}, layer.rate, settings.moments, what),
        bias_(gpu, {input.shape().c, 1}, layer.rate, settings.moments, what),
        running_mean_(gpu, {input.shape().c, 1}, 0.0F, 0, what),
        running_variance_(gpu, {input.shape().c, 1}, 0.0F, 0, what),
        sums_(gpu, {input.shape().c, 1}, what),
        squares_(gpu, {input.shape().c, 1}, what),
        mean_(gpu, {input.shape().c, 1}, what),
        inverse_(gpu, {input.shape().c, 1}, what) {
    // No gradient goes through the statistics of a frozen norm, which are constants: its slopes count as 0.
    const std::vector<float> zeros(2 * static_cast<std::size_t>(input.shape().c), 0.0F);
    if (layer_.frozen()) write_lists(zeros, sums_, squares_);
  }

  void forward(const Pass& pass, SampleRange samples) override {
    invariant(samples.count == input_.shape().n, "batch norm takes the whole batch");
    const bool by_batch = pass.training && !layer_.frozen();
    if (by_batch) sum_squares();
    gpu_.run(cuda::NormMoments{by_batch, count(samples.count), layer_.epsilon, layer_.momentum, sums_.data(),
                               squares_.data(), running_mean_.values.data(), running_variance_.values.data(),
                               mean_.data(), inverse_.data()},
             channels());
    normalise();
  }
  const CudaTensor& output() const override { return output_; }
  const CudaTensor& backward(const CudaTensor& gradient, SampleRange) override {
    if (layer_.frozen()) return differentiate(gradient, sums_, squares_);
    sum_slopes(gradient);
    return differentiate(gradient, *bias_.gradient, *weights_.gradient);
  }

  std::vector<float> moments() override {
    sum_squares();
    std::vector<float> all = read_lists(sums_, squares_);
    for (float& value : all) value /= count(input_.shape().n);
    return all;
  }
  void normalise(std::span<const double> joint) override {
    const std::vector<float> running = read_lists(running_mean_.values, running_variance_.values);
    write_lists(next_running<float>(layer_, joint, count(whole_batch_), running), running_mean_.values,
                running_variance_.values);
    write_lists(scaling_of(layer_, joint), mean_, inverse_);
    normalise();
  }
  std::vector<float> slopes(const CudaTensor& gradient) override {
    gradient_ = &gradient;
    sum_slopes(gradient);
    return read_lists(*bias_.gradient, *weights_.gradient);
  }
  const CudaTensor& take_slopes(std::span<const double> joint) override {
    write_lists(std::vector<float>(joint.begin(), joint.end()), sums_, squares_);
    return differentiate(*gradient_, sums_, squares_);
  }
  std::vector<CudaParameter*> parameters() override { return {&weights_, &bias_, &running_mean_, &running_variance_}; }

 private:
  int channels() const { return input_.shape().c; }
  int places() const { return input_.shape().h * input_.shape().w; }
  cuda::Layout layout() const { return {input_.shape().n, channels(), places()}; }
  /// Returns the number of values of a channel in some samples.
  float count(int samples) const { return static_cast<float>(samples) * static_cast<float>(places()); }
  /// Finds sums_, and squares_ of the distances from the mean of the shard's samples.
  void sum_squares() {
    gpu_.sum(cuda::Values{input_.data()}, layout(), sums_.data());
    gpu_.sum(cuda::SquareDistances{count(input_.shape().n), input_.data(), sums_.data()}, layout(), squares_.data());
  }
  void normalise() {
    gpu_.run(cuda::Normalise{channels(), places(), input_.data(), mean_.data(), inverse_.data(), weights_.values.data(),
                             bias_.values.data(), output_.data()},
             input_.size());
  }
  /// Finds the slopes of the shard's samples, which are the gradients of bias and weights.
  void sum_slopes(const CudaTensor& gradient) {
    gpu_.sum(cuda::NormSlopes{input_.data(), gradient.data(), mean_.data(), inverse_.data()}, layout(),
             bias_.gradient->data(), weights_.gradient->data());
  }
  /// Finds the input gradient from the slopes of the whole batch.
  const CudaTensor& differentiate(const CudaTensor& gradient, const CudaTensor& sums, const CudaTensor& products) {
    gpu_.run(cuda::NormGradient{channels(), places(), count(whole_batch_), input_.data(), gradient.data(), mean_.data(),
                                inverse_.data(), weights_.values.data(), sums.data(), products.data(),
                                input_gradient_.data()},
             input_.size());
    return input_gradient_;
  }
  /// Read and write two lists of one value per channel, one after the other.
  std::vector<float> read_lists(const CudaTensor& first, const CudaTensor& second) const {
    std::vector<float> all(2 * static_cast<std::size_t>(channels()));
    first.read(std::span(all).first(all.size() / 2));
    second.read(std::span(all).last(all.size() / 2));
    return all;
  }
  static void write_lists(const std::vector<float>& all, CudaTensor& first, CudaTensor& second) {
    first.write(std::span(all).first(all.size() / 2));
    second.write(std::span(all).last(all.size() / 2));
  }
  cuda::Gpu& gpu_;
  BatchNorm layer_;
  int whole_batch_;
  const CudaTensor& input_;
  CudaTensor output_;
  CudaTensor input_gradient_;
  CudaParameter weights_, bias_, running_mean_, running_variance_;
  CudaTensor sums_, squares_, mean_, inverse_;
  const CudaTensor* gradient_ = nullptr;  ///< with respect to the output, of the last slopes()
};

}  // namespace

std::unique_ptr<CudaNorm> make_cuda_batch_norm(cuda::Gpu& gpu, const BatchNorm& layer, const NormSettings& settings,
                                               const CudaTensor& input, const std::string& what) {
  return std::make_unique<CudaBatchNorm>(gpu, layer, settings, input, what);
}

}  // namespace convoy
