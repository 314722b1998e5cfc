#include "kernels/onednn/batch_norm.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/host/add_slopes.hpp"
#include "kernels/host/batch_statistics.hpp"
#include "kernels/joint_statistics.hpp"
#include "kernels/onednn/host_activation.hpp"

namespace convoy {

using dnnl::memory;
using dnnl::prop_kind;

namespace {

using Arguments = std::unordered_map<int, memory>;

/// oneDNN normalises with statistics that this class has summed, because oneDNN would sum them in single precision. The
/// backward pass differentiates through the statistics, because its flags do not include use_global_stats. Where shards
/// join their statistics, its flags do, and the layer itself adds the part of the gradient that goes through them. The
/// statistics of a frozen norm are its running averages, which are constants.
class BatchNormLayer : public OnednnNorm {
 public:
  BatchNormLayer(OnednnEngine& engine, const BatchNorm& layer, const Shape& shape, const memory& input,
                 const OnednnNormSettings& settings)
      : engine_(engine),
        layer_(layer),
        shape_(shape),
        whole_count_(static_cast<double>(settings.whole_batch) * shape.h * shape.w),
        fused_(settings.fused),
        input_(input),
        statistics_(shape, lanes_of(input.get_desc(), shape)),
        output_(engine.make(input.get_desc())),
        input_gradient_(engine.make(input.get_desc())),
        gradient_(input.get_desc()) {
    const memory::desc desc = input.get_desc();
    const memory::desc list{{shape.c}, memory::data_type::f32, memory::format_tag::x};
    const Flags flags = fused_ ? kFlags | Flags::fuse_norm_relu : kFlags;
    const bool constants = settings.whole_batch > shape.n || layer.frozen();
    const auto training = describe(true, flags);
    training_ = dnnl::batch_normalization_forward(training);
    testing_ = dnnl::batch_normalization_forward(describe(false, flags));
    backward_ = dnnl::batch_normalization_backward(onednn::describe_batch_norm_backward(
        engine.engine, training, desc, layer.epsilon, constants ? flags | Flags::use_global_stats : flags));
    if (fused_) kept_ = engine.make(training.workspace_desc());
    for (OnednnParameter* each : {&weights_, &bias_}) {
      *each = OnednnParameter(engine, list, layer.rate, settings.moments);
    }
    for (OnednnParameter* each : {&running_mean_, &running_variance_}) *each = OnednnParameter(engine, list, 0.0F, 0);
    weights_gradient_ = layer.frozen() ? engine.make(list) : weights_.gradient;
    bias_gradient_ = layer.frozen() ? engine.make(list) : bias_.gradient;
    mean_ = engine.make(list);
    variance_ = engine.make(list);
  }

  void forward(const Pass& pass, SampleRange samples) override {
    invariant(samples.count == shape_.n, "batch norm takes the whole batch");
    if (pass.training && layer_.frozen()) {
      std::copy_n(floats_of(running_mean_.values), shape_.c, floats_of(mean_));
      std::copy_n(floats_of(running_variance_.values), shape_.c, floats_of(variance_));
    } else if (pass.training) {
      statistics_.find(floats_of(input_));
      take_statistics(statistics_.mean(), statistics_.variance());
    }
    normalise(pass.training);
  }
  std::vector<float> moments() override {
    statistics_.find(floats_of(input_));
    std::vector<float> all;
    for (const std::vector<double>& some : {statistics_.mean(), statistics_.variance()}) {
      for (const double value : some) all.push_back(static_cast<float>(value));
    }
    return all;
  }
  void normalise(std::span<const double> joint) override {
    const std::size_t channels = joint.size() / 2;
    take_statistics(joint.first(channels), joint.last(channels));
    normalise(true);
  }
  const memory& output() const override { return output_; }
  void backward(const memory& gradient, SampleRange) override { find_gradients(gradient); }
  std::vector<float> slopes(const memory& gradient) override {
    find_gradients(gradient);
    std::vector<float> all;
    for (const memory& some : {bias_.gradient, weights_.gradient}) {
      all.insert(all.end(), floats_of(some), floats_of(some) + shape_.c);
    }
    return all;
  }
  void take_slopes(std::span<const double> joint) override;
  const memory& input_gradient() const override { return input_gradient_; }
  const Shape& input_shape() const override { return shape_; }
  std::vector<const OnednnParameter*> parameters() const override {
    return {&weights_, &bias_, &running_mean_, &running_variance_};
  }

 private:
  using Flags = dnnl::normalization_flags;
  static constexpr Flags kFlags =
      static_cast<Flags>(static_cast<unsigned>(Flags::use_scale) | static_cast<unsigned>(Flags::use_shift));

  void normalise(bool training) {
    Arguments arguments{{DNNL_ARG_SRC, input_},
                        {DNNL_ARG_DST, output_},
                        {DNNL_ARG_SCALE, weights_.values},
                        {DNNL_ARG_SHIFT, bias_.values},
                        {DNNL_ARG_MEAN, training ? mean_ : running_mean_.values},
                        {DNNL_ARG_VARIANCE, training ? variance_ : running_variance_.values}};
    if (kept_ && training) arguments.emplace(DNNL_ARG_WORKSPACE, kept_);
    const dnnl::batch_normalization_forward& forward = training ? training_ : testing_;
    if (!fused_) {
      engine_.run(forward, arguments);
    } else if (!engine_.run_relu(forward, arguments)) {
      arguments.erase(DNNL_ARG_WORKSPACE);
      engine_.run(dnnl::batch_normalization_forward(describe(training, kFlags)), arguments);
      activate_in_place(Activation::relu, output_, shape_);
    }
  }
  void find_gradients(const memory& gradient) {
    Arguments arguments{{DNNL_ARG_SRC, input_},
                        {DNNL_ARG_DIFF_DST, gradient_.take(engine_, gradient)},
                        {DNNL_ARG_SCALE, weights_.values},
                        {DNNL_ARG_MEAN, mean_},
                        {DNNL_ARG_VARIANCE, variance_},
                        {DNNL_ARG_DIFF_SRC, input_gradient_},
                        {DNNL_ARG_DIFF_SCALE, weights_gradient_},
                        {DNNL_ARG_DIFF_SHIFT, bias_gradient_}};
    if (onednn::kBatchNormBackwardCountsShift) arguments.emplace(DNNL_ARG_SHIFT, bias_.values);
    if (kept_) arguments.emplace(DNNL_ARG_WORKSPACE, kept_);
    engine_.run(backward_, arguments);
  }
  dnnl::batch_normalization_forward::primitive_desc describe(bool training, Flags flags) const {
    return onednn::describe_batch_norm(engine_.engine,
                                       training ? prop_kind::forward_training : prop_kind::forward_inference,
                                       input_.get_desc(), layer_.epsilon, flags | Flags::use_global_stats);
  }
  /// Takes the statistics of the whole batch.
  void take_statistics(std::span<const double> means, std::span<const double> variances) {
    for (int c = 0; c < shape_.c; ++c) {
      floats_of(mean_)[c] = static_cast<float>(means[c]);
      floats_of(variance_)[c] = static_cast<float>(variances[c]);
      float& running_mean = floats_of(running_mean_.values)[c];
      float& running_variance = floats_of(running_variance_.values)[c];
      running_mean = next_average(layer_, running_mean, means[c]);
      running_variance = next_average(layer_, running_variance, unbiased(variances[c], whole_count_));
    }
  }

  OnednnEngine& engine_;
  BatchNorm layer_;
  Shape shape_;
  double whole_count_;  ///< values of a channel in the whole batch
  bool fused_;          ///< includes a ReLU
  memory input_;
  BatchStatistics statistics_;
  memory output_;
  memory input_gradient_;
  OnednnInlet gradient_;
  dnnl::batch_normalization_forward training_;
  dnnl::batch_normalization_forward testing_;
  dnnl::batch_normalization_backward backward_;
  OnednnParameter weights_, bias_, running_mean_, running_variance_;
  memory weights_gradient_, bias_gradient_;  ///< gradients of the parameters; a frozen norm does not use them
  memory mean_;                              ///< mean of the last training forward
  memory variance_;
  memory kept_;  ///< workspace of the forward pass for the backward pass
};

/// Adds, to weight * inverse * dy, which oneDNN has found with the statistics as constants, the gradient through them:
/// -weight * inverse * (mean of dy + y' * mean of (dy * y')), where y' = (x - mean) * inverse and means are over the
/// whole batch.
void BatchNormLayer::take_slopes(std::span<const double> joint) {
  const LanedMaps maps = lanes_of(input_.get_desc(), shape_);
  const int blocks = maps.planes / shape_.n;
  const std::size_t padded = static_cast<std::size_t>(maps.lanes) * static_cast<std::size_t>(blocks);
  // What pads the channels to blocks stays 0.
  std::vector<float> mean(padded, 0.0F);
  std::vector<float> constant(padded, 0.0F);
  std::vector<float> slope(padded, 0.0F);
  for (int c = 0; c < shape_.c; ++c) {
    const double inverse =
        1.0 / std::sqrt(static_cast<double>(floats_of(variance_)[c]) + static_cast<double>(layer_.epsilon));
    const double factor = static_cast<double>(floats_of(weights_.values)[c]) * inverse / whole_count_;
    mean[c] = floats_of(mean_)[c];
    constant[c] = static_cast<float>(-factor * joint[c]);
    slope[c] = static_cast<float>(-factor * inverse * joint[shape_.c + c]);
  }
  add_slopes(maps, blocks, {mean, constant, slope}, floats_of(input_), floats_of(input_gradient_));
}

}  // namespace

std::unique_ptr<OnednnNorm> make_onednn_batch_norm(OnednnEngine& engine, const BatchNorm& layer, const Shape& shape,
                                                   const memory& input, const OnednnNormSettings& settings) {
  return std::make_unique<BatchNormLayer>(engine, layer, shape, input, settings);
}

}  // namespace convoy
