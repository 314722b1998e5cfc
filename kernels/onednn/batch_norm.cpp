#include "kernels/onednn/batch_norm.hpp"

#include <algorithm>

#include "kernels/host/batch_statistics.hpp"
#include "kernels/onednn/relu.hpp"

namespace convoy {

using dnnl::memory;
using dnnl::prop_kind;

namespace {

using Arguments = std::unordered_map<int, memory>;

/// oneDNN normalises with statistics that this class has summed, because oneDNN would sum them in single precision. The
/// backward pass differentiates through the statistics, because its flags do not include use_global_stats.
class BatchNormLayer : public OnednnLayer {
 public:
  BatchNormLayer(OnednnEngine& engine, const BatchNorm& layer, const Shape& shape, int moments, const memory& input,
                 bool fused)
      : engine_(engine),
        layer_(layer),
        shape_(shape),
        fused_(fused),
        input_(input),
        statistics_(shape, lanes_of(input.get_desc(), shape)),
        output_(engine.make(input.get_desc())),
        input_gradient_(engine.make(input.get_desc())),
        gradient_(input.get_desc()) {
    const memory::desc desc = input.get_desc();
    const memory::desc list{{shape.c}, memory::data_type::f32, memory::format_tag::x};
    const Flags flags = fused ? kFlags | Flags::fuse_norm_relu : kFlags;
    const auto training = describe(true, flags);
    training_ = dnnl::batch_normalization_forward(training);
    testing_ = dnnl::batch_normalization_forward(describe(false, flags));
    backward_ = dnnl::batch_normalization_backward(
        onednn::describe_batch_norm_backward(engine.engine, training, desc, layer.epsilon, flags));
    if (fused) kept_ = engine.make(training.workspace_desc());
    for (OnednnParameter* each : {&weights_, &bias_}) *each = OnednnParameter(engine, list, true, moments);
    for (OnednnParameter* each : {&running_mean_, &running_variance_}) *each = OnednnParameter(engine, list, false, 0);
    mean_ = engine.make(list);
    variance_ = engine.make(list);
  }

  void forward(const Pass& pass, SampleRange samples) override {
    invariant(samples.count == shape_.n, "batch norm takes the whole batch");
    if (pass.training) find_statistics();
    Arguments arguments{{DNNL_ARG_SRC, input_},
                        {DNNL_ARG_DST, output_},
                        {DNNL_ARG_SCALE, weights_.values},
                        {DNNL_ARG_SHIFT, bias_.values},
                        {DNNL_ARG_MEAN, pass.training ? mean_ : running_mean_.values},
                        {DNNL_ARG_VARIANCE, pass.training ? variance_ : running_variance_.values}};
    if (kept_ && pass.training) arguments.emplace(DNNL_ARG_WORKSPACE, kept_);
    const dnnl::batch_normalization_forward& forward = pass.training ? training_ : testing_;
    if (!fused_) {
      engine_.run(forward, arguments);
    } else if (!engine_.run_relu(forward, arguments)) {
      arguments.erase(DNNL_ARG_WORKSPACE);
      engine_.run(dnnl::batch_normalization_forward(describe(pass.training, kFlags)), arguments);
      activate_in_place(Activation::relu, output_);
    }
  }
  const memory& output() const override { return output_; }
  void backward(const memory& gradient, SampleRange) override {
    Arguments arguments{{DNNL_ARG_SRC, input_},
                        {DNNL_ARG_DIFF_DST, gradient_.take(engine_, gradient)},
                        {DNNL_ARG_SCALE, weights_.values},
                        {DNNL_ARG_MEAN, mean_},
                        {DNNL_ARG_VARIANCE, variance_},
                        {DNNL_ARG_DIFF_SRC, input_gradient_},
                        {DNNL_ARG_DIFF_SCALE, weights_.gradient},
                        {DNNL_ARG_DIFF_SHIFT, bias_.gradient}};
    if (onednn::kBatchNormBackwardCountsShift) arguments.emplace(DNNL_ARG_SHIFT, bias_.values);
    if (kept_) arguments.emplace(DNNL_ARG_WORKSPACE, kept_);
    engine_.run(backward_, arguments);
  }
  const memory& input_gradient() const override { return input_gradient_; }
  const Shape& input_shape() const override { return shape_; }
  std::vector<const OnednnParameter*> parameters() const override {
    return {&weights_, &bias_, &running_mean_, &running_variance_};
  }

 private:
  using Flags = dnnl::normalization_flags;
  static constexpr Flags kFlags =
      static_cast<Flags>(static_cast<unsigned>(Flags::use_scale) | static_cast<unsigned>(Flags::use_shift));

  dnnl::batch_normalization_forward::primitive_desc describe(bool training, Flags flags) const {
    return onednn::describe_batch_norm(engine_.engine,
                                       training ? prop_kind::forward_training : prop_kind::forward_inference,
                                       input_.get_desc(), layer_.epsilon, flags | Flags::use_global_stats);
  }
  void find_statistics() {
    statistics_.find(floats_of(input_));
    const double count = static_cast<double>(shape_.n) * shape_.h * shape_.w;
    const double unbiased = count / std::max(1.0, count - 1.0);
    const auto momentum = static_cast<double>(layer_.momentum);
    const auto average = [&](float& running, double value) {
      running = static_cast<float>((1.0 - momentum) * static_cast<double>(running) + momentum * value);
    };
    for (int c = 0; c < shape_.c; ++c) {
      const double mean = statistics_.mean()[c];
      const double variance = statistics_.variance()[c];
      floats_of(mean_)[c] = static_cast<float>(mean);
      floats_of(variance_)[c] = static_cast<float>(variance);
      average(floats_of(running_mean_.values)[c], mean);
      average(floats_of(running_variance_.values)[c], unbiased * variance);
    }
  }

  OnednnEngine& engine_;
  BatchNorm layer_;
  Shape shape_;
  bool fused_;  ///< includes a ReLU
  memory input_;
  BatchStatistics statistics_;
  memory output_;
  memory input_gradient_;
  OnednnInlet gradient_;
  dnnl::batch_normalization_forward training_;
  dnnl::batch_normalization_forward testing_;
  dnnl::batch_normalization_backward backward_;
  OnednnParameter weights_, bias_, running_mean_, running_variance_;
  memory mean_;  ///< mean of the last training forward
  memory variance_;
  memory kept_;  ///< workspace of the forward pass for the backward pass
};

}  // namespace

std::unique_ptr<OnednnLayer> make_onednn_batch_norm(OnednnEngine& engine, const BatchNorm& layer, const Shape& shape,
                                                    int moments, const memory& input, bool fused) {
  return std::make_unique<BatchNormLayer>(engine, layer, shape, moments, input, fused);
}

}  // namespace convoy
