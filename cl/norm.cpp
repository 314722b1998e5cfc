// Batch norm on an OpenCL device.

#include "cl/layers.hpp"
#include "kernels/joint_statistics.hpp"

namespace convoy {
namespace {

class ClBatchNorm : public ClNorm {
 public:
  ClBatchNorm(ClShared& shared, const BatchNorm& layer, const NormSettings& settings, const ClTensor& input,
              const std::string& what)
      : shared_(shared),
        kernels_(shared.norm_kernels()),
        sum_maps_(shared.layers.sum_maps.timed_apart()),
        layer_(layer),
        whole_batch_(settings.whole_batch),
        input_(input),
        output_(shared, input.shape(), what),
        input_gradient_(shared, input.shape(), what),
        weights_(shared, {input.shape().c, 1}, layer.rate, settings.moments, what),
        bias_(shared, {input.shape().c, 1}, layer.rate, settings.moments, what),
        running_mean_(shared, {input.shape().c, 1}, 0.0F, 0, what),
        running_variance_(shared, {input.shape().c, 1}, 0.0F, 0, what) {
    const std::size_t channels = static_cast<std::size_t>(input.shape().c) * sizeof(float);
    slices_ = shared.context.allocate(channels * static_cast<std::size_t>(input.shape().n), what);
    for (ClBuffer* list : {&sums_, &squares_, &mean_, &inverse_}) *list = shared.context.allocate(channels, what);
    // No gradient goes through the statistics of a frozen norm, which are constants: its slopes count as 0.
    const std::vector<float> zeros(2 * static_cast<std::size_t>(input.shape().c), 0.0F);
    if (layer_.frozen()) write_lists(zeros, sums_, squares_);
  }

  void forward(const Pass& pass, SampleRange samples) override {
    const Shape shape = input_.shape();
    invariant(samples.count == shape.n, "batch norm takes the whole batch");
    const bool by_batch = pass.training && !layer_.frozen();
    if (by_batch) sum_squares();
    shared_.context.launch(kernels_.norm_moments, {static_cast<std::size_t>(shape.c), 1, 1}, sums_, squares_,
                           running_mean_.values.buffer(), running_variance_.values.buffer(), mean_, inverse_, shape.c,
                           count(shape.n), layer_.epsilon, layer_.momentum, by_batch ? 1 : 0);
    normalise();
  }
  const ClTensor& output() const override { return output_; }
  const ClBuffer& backward(const ClBuffer& gradient, SampleRange) override {
    if (layer_.frozen()) return differentiate(gradient, sums_, squares_);
    sum_slopes(gradient);
    return differentiate(gradient, bias_.gradient->buffer(), weights_.gradient->buffer());
  }

  std::vector<float> moments() override {
    sum_squares();
    std::vector<float> all = read_lists(sums_, squares_);
    for (float& value : all) value /= count(input_.shape().n);
    return all;
  }
  void normalise(std::span<const double> joint) override {
    const ClBuffer& running_mean = running_mean_.values.buffer();
    const ClBuffer& running_variance = running_variance_.values.buffer();
    const std::vector<float> running = read_lists(running_mean, running_variance);
    write_lists(next_running<float>(layer_, joint, count(whole_batch_), running), running_mean, running_variance);
    write_lists(scaling_of(layer_, joint), mean_, inverse_);
    normalise();
  }
  std::vector<float> slopes(const ClBuffer& gradient) override {
    gradient_ = &gradient;
    sum_slopes(gradient);
    return read_lists(bias_.gradient->buffer(), weights_.gradient->buffer());
  }
  const ClBuffer& take_slopes(std::span<const double> joint) override {
    write_lists(std::vector<float>(joint.begin(), joint.end()), sums_, squares_);
    return differentiate(*gradient_, sums_, squares_);
  }
  std::vector<ClParameter*> parameters() override { return {&weights_, &bias_, &running_mean_, &running_variance_}; }

 private:
  /// Returns the number of values of a channel in some samples.
  float count(int samples) const {
    return static_cast<float>(samples) * static_cast<float>(input_.shape().h * input_.shape().w);
  }
  /// Finds sums_, and squares_ of the distances from the mean of the shard's samples.
  void sum_squares() {
    const Shape shape = input_.shape();
    shared_.sum_channels(sum_maps_, shape, input_.buffer(), slices_, sums_);
    // The summands are written to the output buffer, which the output overwrites afterwards.
    shared_.launch_over_maps(kernels_.square_distances, shape, {0, shape.n}, input_.buffer(), sums_, output_.buffer(),
                             shape.h, shape.w, shape.c, count(shape.n));
    shared_.sum_channels(sum_maps_, shape, output_.buffer(), slices_, squares_);
  }
  void normalise() {
    const Shape shape = input_.shape();
    shared_.launch_over_maps(kernels_.normalise, shape, {0, shape.n}, input_.buffer(), mean_, inverse_,
                             weights_.values.buffer(), bias_.values.buffer(), output_.buffer(), shape.h, shape.w,
                             shape.c);
  }
  /// Finds the slopes of the shard's samples, which are the gradients of bias and weights.
  void sum_slopes(const ClBuffer& gradient) {
    const Shape shape = input_.shape();
    shared_.sum_channels(sum_maps_, shape, gradient, slices_, bias_.gradient->buffer());
    shared_.launch_over_maps(kernels_.norm_products, shape, {0, shape.n}, input_.buffer(), gradient, mean_, inverse_,
                             input_gradient_.buffer(), shape.h, shape.w, shape.c);
    shared_.sum_channels(sum_maps_, shape, input_gradient_.buffer(), slices_, weights_.gradient->buffer());
  }
  /// Finds the input gradient from the slopes of the whole batch.
  const ClBuffer& differentiate(const ClBuffer& gradient, const ClBuffer& sums, const ClBuffer& products) {
    const Shape shape = input_.shape();
    shared_.launch_over_maps(kernels_.norm_gradient, shape, {0, shape.n}, input_.buffer(), gradient, mean_, inverse_,
                             weights_.values.buffer(), sums, products, input_gradient_.buffer(), shape.h, shape.w,
                             shape.c, count(whole_batch_));
    return input_gradient_.buffer();
  }
  /// Read and write two lists of one value per channel, one after the other.
  std::vector<float> read_lists(const ClBuffer& first, const ClBuffer& second) {
    const auto channels = static_cast<std::size_t>(input_.shape().c);
    std::vector<float> all(2 * channels);
    shared_.context.read(first, 0, std::span(all).first(channels));
    shared_.context.read(second, 0, std::span(all).last(channels));
    return all;
  }
  void write_lists(const std::vector<float>& all, const ClBuffer& first, const ClBuffer& second) {
    const auto channels = static_cast<std::size_t>(input_.shape().c);
    shared_.context.write(first, 0, std::span(all).first(channels));
    shared_.context.write(second, 0, std::span(all).last(channels));
  }

  ClShared& shared_;
  const NormKernels& kernels_;
  ClKernel sum_maps_;  ///< timed apart, because a work-item sums a map of this size
  BatchNorm layer_;
  int whole_batch_;
  const ClTensor& input_;
  ClTensor output_;
  ClTensor input_gradient_;
  ClParameter weights_, bias_, running_mean_, running_variance_;
  ClBuffer slices_;
  ClBuffer sums_;
  ClBuffer squares_;
  ClBuffer mean_;
  ClBuffer inverse_;
  const ClBuffer* gradient_ = nullptr;  ///< with respect to the output, of the last slopes()
};

}  // namespace

std::unique_ptr<ClNorm> make_cl_batch_norm(ClShared& shared, const BatchNorm& layer, const NormSettings& settings,
                                           const ClTensor& input, const std::string& what) {
  return std::make_unique<ClBatchNorm>(shared, layer, settings, input, what);
}

}  // namespace convoy
