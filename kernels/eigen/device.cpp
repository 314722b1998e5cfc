#include "kernels/eigen/device.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/thread_team.hpp"
#include "kernels/eigen/products.hpp"
#include "kernels/host/channel_layers.hpp"
#include "kernels/host/host_tensor.hpp"
#include "kernels/host/im2col.hpp"
#include "kernels/host/weightless.hpp"

namespace convoy {
namespace {

class EigenShard : public Shard {
 public:
  EigenShard(const ShardSpec& spec, ThreadTeam& team);

  std::unique_ptr<DeviceTensor> make_input() const override {
    return std::make_unique<HostTensor<float>>(input_shape(spec_.stage, spec_.batch));
  }
  std::unique_ptr<DeviceTensor> make_output_gradient() const override {
    return std::make_unique<HostTensor<float>>(output_.shape());
  }
  std::unique_ptr<DeviceTensor> make_added(std::size_t index) const override {
    return std::make_unique<HostTensor<float>>(added_gradients_.at(index).shape());
  }
  void connect(std::size_t index, const DeviceTensor& maps) override {
    layers_.connect(index, host_values<float>(maps));
  }
  const DeviceTensor& added_gradient(std::size_t index) const override { return added_gradients_.at(index); }
  const ShardSpec& spec() const override { return spec_; }
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) override;
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient, SampleRange samples) override;
  void backward_filters() override;
  std::vector<float> moments() override { return layers_.moments(splitter()); }
  const DeviceTensor& normalise(std::span<const double> joint) override;
  std::vector<float> slopes(const DeviceTensor& output_gradient) override;
  void take_slopes(std::span<const double> joint) override;
  void update(const UpdateStep& step) override { parameters_.update(step); }
  bool finite() const override { return parameters_.finite(); }
  ShardState state() const override { return parameters_.state(); }
  void set_state(const ShardState& state) override { parameters_.set_state(state); }
  std::vector<Tensor> gradients() const override { return parameters_.gradients(); }
  void set_gradients(const std::vector<Tensor>& gradients) override { parameters_.set_gradients(gradients); }

 private:
  /// The buffers of one thread.
  struct Workspace {
    std::vector<float> columns;  ///< a sample's im2col matrix: a row for each weight of each group that is read
    std::vector<float> weight_gradient;
    std::vector<float> bias_gradient;
  };

  /// Calls work(workspace, first, last) on each thread for its own samples first .. last - 1 of the range.
  template <class Work>
  void split(SampleRange samples, Work work) {
    team_.split(samples.count, [&](int thread, int first, int last) {
      work(work_[thread], samples.first + first, samples.first + last);
    });
  }
  void take_gradient(const DeviceTensor& output_gradient, SampleRange samples);
  void give_added_gradients(SampleRange samples);
  void forward_sample(Workspace& work, int n);
  void backward_input_sample(Workspace& work, int n);
  void backward_filters_sample(Workspace& work, int n);
  void sum_gradients();
  /// A run of filters of one group, and the first row of their channels in the im2col matrix.
  struct GroupRun {
    int first;
    int count;
    int row;
  };
  std::vector<GroupRun> runs() const;
  bool convolves() const { return spec_.stage.kind == StageKind::convolution; }
  // The rows of a run of filters, in the matrices of a row for each filter and of a row for each weight.
  std::span<const float> weights(const GroupRun& run) const {
    return rows(parameters_.weights().value.span(), run, taps_);
  }
  template <class T>
  std::span<T> rows(std::span<T> matrix, const GroupRun& run, int width) const {
    return matrix.subspan(static_cast<std::size_t>(run.first) * width, static_cast<std::size_t>(run.count) * width);
  }
  std::span<float> columns(Workspace& work, const GroupRun& run) const {
    const auto places = static_cast<std::size_t>(places_);
    return std::span(work.columns).subspan(run.row * places, taps_ * places);
  }
  Splitter splitter() {
    return [this](int count, const std::function<void(int first, int last)>& work) {
      team_.split(count, [&](int, int first, int last) { work(first, last); });
    };
  }

  ShardSpec spec_;
  ThreadTeam& team_;
  int filters_;
  int taps_;              ///< weights of one filter
  int places_;            ///< windows of one map
  FilterRange channels_;  ///< the channels that the shard reads
  Stage read_;            ///< the stage with those channels alone
  std::vector<GroupRun> runs_;
  HostParameters<float> parameters_;
  ChannelLayers<float> layers_;
  HostTensor<float> output_;
  Weightless<float> weightless_;
  HostTensor<float> input_gradient_;
  std::vector<HostTensor<float>> added_gradients_;
  std::vector<Workspace> work_;
  const BasicTensor<float>* input_ = nullptr;
};

EigenShard::EigenShard(const ShardSpec& spec, ThreadTeam& team)
    : spec_(spec),
      team_(team),
      filters_(spec.filters.count),
      taps_(static_cast<int>(weight_shape(spec.stage, 1).sample_size())),
      places_(conv_shape(spec.stage, 1, 1).h * conv_shape(spec.stage, 1, 1).w),
      channels_(channels_for(spec.stage, spec.filters)),
      read_(spec.stage),
      runs_(runs()),
      parameters_(spec.stage, spec.filters.count),
      layers_(spec, &parameters_),
      output_(output_shape(spec.stage, spec.batch, spec.filters.count)),
      weightless_(spec.stage, spec.filters, spec.batch),
      input_gradient_(input_shape(spec.stage, spec.input_gradient ? spec.batch : 0)),
      work_(static_cast<std::size_t>(team.size())) {
  for (const Shape& shape : added_shapes(spec.stage, spec.batch, spec.filters.count)) {
    added_gradients_.emplace_back(shape);
  }
  read_.channels = channels_.count;
  for (Workspace& work : work_) {
    const int rows = channels_.count * read_.conv.kernel_h * read_.conv.kernel_w;
    work.columns.resize(static_cast<std::size_t>(rows) * places_);
    work.weight_gradient.resize(static_cast<std::size_t>(filters_) * taps_);
    work.bias_gradient.resize(filters_);
  }
}

std::vector<EigenShard::GroupRun> EigenShard::runs() const {
  const int group_filters = spec_.stage.conv.filters / spec_.stage.conv.groups;
  const int behind = spec_.filters.first + filters_;
  std::vector<GroupRun> all;
  for (int first = spec_.filters.first; first < behind;) {
    const int next = std::min(behind, (first / group_filters + 1) * group_filters);
    all.push_back({first - spec_.filters.first, next - first, static_cast<int>(all.size()) * taps_});
    first = next;
  }
  return all;
}

const DeviceTensor& EigenShard::forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) {
  input_ = &host_values<float>(input);
  invariant(input_->shape() == input_shape(spec_.stage, spec_.batch), "the input has the shard's shape");
  split(samples, [&](Workspace& work, int first, int last) {
    if (!convolves()) return weightless_.forward(*input_, {first, last - first}, layers_.input());
    for (int n = first; n < last; ++n) forward_sample(work, n);
  });
  const SampleRange done = layers_.forward(samples, pass, splitter());
  std::ranges::copy(layers_.output().samples(done.first, done.count),
                    output_.values.samples(done.first, done.count).begin());
  if (!pass.training) input_ = nullptr;
  return output_;
}

void EigenShard::forward_sample(Workspace& work, int n) {
  im2col(read_, &input_->at(n, channels_.first), work.columns.data());
  const std::span<float> out = layers_.input().sample(n);
  for (const GroupRun& run : runs_) {
    eigen_product(Matmul<float>{.m = run.count,
                                .n = places_,
                                .k = taps_,
                                .a = weights(run),
                                .b = columns(work, run),
                                .c = rows(out, run, places_)});
  }
  const HostParameter<float>* bias = parameters_.bias();
  if (bias == nullptr) return;
  for (int f = 0; f < filters_; ++f) {
    for (float& value : out.subspan(static_cast<std::size_t>(f) * places_, places_)) value += bias->value.data()[f];
  }
}

const DeviceTensor* EigenShard::backward_input(const DeviceTensor& output_gradient, SampleRange samples) {
  take_gradient(output_gradient, spec_.read_by_backward(samples));
  give_added_gradients(layers_.backward(samples, splitter()));
  if (!spec_.input_gradient) return nullptr;
  split(samples, [&](Workspace& work, int first, int last) {
    if (!convolves()) {
      return weightless_.backward(*input_, layers_.input_gradient(), {first, last - first}, input_gradient_.values);
    }
    for (int n = first; n < last; ++n) backward_input_sample(work, n);
  });
  return &input_gradient_;
}

void EigenShard::take_gradient(const DeviceTensor& output_gradient, SampleRange samples) {
  invariant(input_ != nullptr, "backward follows a forward in training");
  const BasicTensor<float>& gradient = host_values<float>(output_gradient);
  invariant(gradient.shape() == output_.shape(), "the gradient has the shape of the shard's output");
  std::ranges::copy(gradient.samples(samples.first, samples.count),
                    layers_.output_gradient().samples(samples.first, samples.count).begin());
}

void EigenShard::give_added_gradients(SampleRange samples) {
  for (std::size_t i = 0; i < added_gradients_.size(); ++i) {
    std::ranges::copy(layers_.added_gradient(i).samples(samples.first, samples.count),
                      added_gradients_[i].values.samples(samples.first, samples.count).begin());
  }
}

const DeviceTensor& EigenShard::normalise(std::span<const double> joint) {
  layers_.normalise(joint, splitter());
  std::ranges::copy(layers_.output().span(), output_.values.data());
  return output_;
}

std::vector<float> EigenShard::slopes(const DeviceTensor& output_gradient) {
  take_gradient(output_gradient, {0, spec_.batch});
  return layers_.slopes(splitter());
}

void EigenShard::take_slopes(std::span<const double> joint) {
  layers_.take_slopes(joint, splitter());
  give_added_gradients({0, spec_.batch});
}

void EigenShard::backward_input_sample(Workspace& work, int n) {
  const std::span<const float> dy = layers_.input_gradient().sample(n);
  for (const GroupRun& run : runs_) {
    eigen_product(Matmul<float>{.m = taps_,
                                .n = places_,
                                .k = run.count,
                                .transpose_a = true,
                                .a = weights(run),
                                .b = rows(dy, run, places_),
                                .c = columns(work, run)});
  }
  const auto image = input_gradient_.values.sample(n);
  std::fill(image.begin(), image.end(), 0.0F);
  col2im(read_, work.columns.data(), &input_gradient_.values.at(n, channels_.first));
}

void EigenShard::backward_filters() {
  invariant(input_ != nullptr, "backward_filters follows backward_input");
  if (!convolves() || !parameters_.weights().trained()) return;
  for (Workspace& work : work_) {
    std::ranges::fill(work.weight_gradient, 0.0F);
    std::ranges::fill(work.bias_gradient, 0.0F);
  }
  split({0, spec_.batch}, [&](Workspace& work, int first, int last) {
    for (int n = first; n < last; ++n) backward_filters_sample(work, n);
  });
  sum_gradients();
}

void EigenShard::backward_filters_sample(Workspace& work, int n) {
  const std::span<const float> dy = layers_.input_gradient().sample(n);
  im2col(read_, &input_->at(n, channels_.first), work.columns.data());
  for (const GroupRun& run : runs_) {
    eigen_product(Matmul<float>{.m = run.count,
                                .n = taps_,
                                .k = places_,
                                .transpose_b = true,
                                .a = rows(dy, run, places_),
                                .b = columns(work, run),
                                .c = rows(std::span(work.weight_gradient), run, taps_),
                                .beta = 1.0F});
  }
  for (int f = 0; f < filters_; ++f) {
    const std::span<const float> map = dy.subspan(static_cast<std::size_t>(f) * places_, places_);
    work.bias_gradient[f] += std::reduce(map.begin(), map.end(), 0.0F);
  }
}

void EigenShard::sum_gradients() {
  const auto sum = [this](std::span<float> gradient, std::vector<float> Workspace::*part) {
    std::ranges::fill(gradient, 0.0F);
    for (const Workspace& work : work_) {
      std::transform(gradient.begin(), gradient.end(), (work.*part).begin(), gradient.begin(), std::plus());
    }
  };
  sum(parameters_.weights().gradient.span(), &Workspace::weight_gradient);
  if (parameters_.bias() != nullptr) sum(parameters_.bias()->gradient.span(), &Workspace::bias_gradient);
}

class EigenDevice : public Device {
 public:
  explicit EigenDevice(int threads) : team_(threads) {
    info_.name = "eigen";
    info_.threads = threads;
    info_.memory_factor = 1.7;  // includes one sample's im2col matrix per thread (tests/devices, ProcessorMemory)
    info_.description = fmt::format("Eigen {}, {} thread{}", eigen_release(), threads, threads == 1 ? "" : "s");
  }
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Shard> compile(const ShardSpec& spec) override { return std::make_unique<EigenShard>(spec, team_); }
  std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) override {
    return std::make_unique<HostTensor<float>>(shape);
  }

 private:
  DeviceInfo info_;
  ThreadTeam team_;
};

}  // namespace

std::unique_ptr<Device> make_eigen_device(int threads) { return std::make_unique<EigenDevice>(threads); }

}  // namespace convoy
