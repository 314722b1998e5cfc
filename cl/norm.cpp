// Batch norm on an OpenCL device.

#include "cl/layers.hpp"

namespace convoy {
namespace {

class ClBatchNorm : public ClLayer {
 public:
  ClBatchNorm(ClShared& shared, const BatchNorm& layer, int moments, const ClTensor& input, const std::string& what)
      : shared_(shared),
        kernels_(shared.norm_kernels()),
        sum_maps_(shared.layers.sum_maps.timed_apart()),
        layer_(layer),
        input_(input),
        output_(shared.context, input.shape(), what),
        input_gradient_(shared.context, input.shape(), what),
        weights_(shared.context, {input.shape().c, 1}, true, moments, what),
        bias_(shared.context, {input.shape().c, 1}, true, moments, what),
        running_mean_(shared.context, {input.shape().c, 1}, false, 0, what),
        running_variance_(shared.context, {input.shape().c, 1}, false, 0, what) {
    const std::size_t channels = static_cast<std::size_t>(input.shape().c) * sizeof(float);
    slices_ = shared.context.allocate(channels * static_cast<std::size_t>(input.shape().n), what);
    for (ClBuffer* list : {&sums_, &squares_, &mean_, &inverse_}) *list = shared.context.allocate(channels, what);
  }

  void forward(const Pass& pass, SampleRange samples) override {
    const Shape shape = input_.shape();
    invariant(samples.count == shape.n, "batch norm takes the whole batch");
    if (pass.training) {
      shared_.sum_channels(sum_maps_, shape, input_.buffer(), slices_, sums_);
      // The summands are written to the output buffer, which the output overwrites afterwards.
      shared_.launch_over_maps(kernels_.square_distances, shape, samples, input_.buffer(), sums_, output_.buffer(),
                               shape.h, shape.w, shape.c, count());
      shared_.sum_channels(sum_maps_, shape, output_.buffer(), slices_, squares_);
    }
    shared_.context.launch(kernels_.norm_moments, {static_cast<std::size_t>(shape.c), 1, 1}, sums_, squares_,
                           running_mean_.values.buffer(), running_variance_.values.buffer(), mean_, inverse_, shape.c,
                           count(), layer_.epsilon, layer_.momentum, pass.training ? 1 : 0);
    shared_.launch_over_maps(kernels_.normalise, shape, samples, input_.buffer(), mean_, inverse_,
                             weights_.values.buffer(), bias_.values.buffer(), output_.buffer(), shape.h, shape.w,
                             shape.c);
  }
  const ClTensor& output() const override { return output_; }
  const ClBuffer& backward(const ClBuffer& gradient, SampleRange samples) override {
    const Shape shape = input_.shape();
    shared_.sum_channels(sum_maps_, shape, gradient, slices_, bias_.gradient->buffer());
    shared_.launch_over_maps(kernels_.norm_products, shape, samples, input_.buffer(), gradient, mean_, inverse_,
                             input_gradient_.buffer(), shape.h, shape.w, shape.c);
    shared_.sum_channels(sum_maps_, shape, input_gradient_.buffer(), slices_, weights_.gradient->buffer());
    shared_.launch_over_maps(kernels_.norm_gradient, shape, samples, input_.buffer(), gradient, mean_, inverse_,
                             weights_.values.buffer(), bias_.gradient->buffer(), weights_.gradient->buffer(),
                             input_gradient_.buffer(), shape.h, shape.w, shape.c, count());
    return input_gradient_.buffer();
  }
  std::vector<ClParameter*> parameters() override { return {&weights_, &bias_, &running_mean_, &running_variance_}; }

 private:
  float count() const {
    const Shape shape = input_.shape();
    return static_cast<float>(shape.n) * static_cast<float>(shape.h * shape.w);
  }

  ClShared& shared_;
  const NormKernels& kernels_;
  ClKernel sum_maps_;  ///< timed apart, because a work-item sums a map of this size
  BatchNorm layer_;
  const ClTensor& input_;
  ClTensor output_;
  ClTensor input_gradient_;
  ClParameter weights_, bias_, running_mean_, running_variance_;
  ClBuffer slices_;
  ClBuffer sums_;
  ClBuffer squares_;
  ClBuffer mean_;
  ClBuffer inverse_;
};

}  // namespace

std::unique_ptr<ClLayer> make_cl_batch_norm(ClShared& shared, const BatchNorm& layer, int moments,
                                            const ClTensor& input, const std::string& what) {
  return std::make_unique<ClBatchNorm>(shared, layer, moments, input, what);
}

}  // namespace convoy
