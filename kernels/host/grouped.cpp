#include "kernels/host/grouped.hpp"

#include <algorithm>

#include "kernels/joint_statistics.hpp"

namespace convoy {
namespace {

/// A run of the stage's filters that makes up `groups` groups, or a part of one group.
struct Run {
  FilterRange filters;
  int groups = 1;
};

std::vector<Run> runs_of(const ShardSpec& spec, bool groups_together) {
  const int group = spec.stage.conv.filters / spec.stage.conv.groups;
  const int behind = spec.filters.first + spec.filters.count;
  std::vector<Run> runs;
  for (int first = spec.filters.first; first < behind;) {
    const int whole = first % group == 0 && groups_together ? (behind - first) / group : 0;
    const int next = whole > 0 ? first + whole * group : std::min(behind, (first / group + 1) * group);
    runs.push_back({{first, next - first}, std::max(whole, 1)});
    first = next;
  }
  return runs;
}

class ShardInParts : public Shard {
 public:
  ShardInParts(Device& device, const ShardSpec& spec, bool groups_together);

  std::unique_ptr<DeviceTensor> make_input() const override {
    return device_.make_tensor(input_shape(spec_.stage, spec_.batch));
  }
  std::unique_ptr<DeviceTensor> make_output_gradient() const override { return device_.make_tensor(output_->shape()); }
  std::unique_ptr<DeviceTensor> make_added(std::size_t index) const override {
    return device_.make_tensor(added_gradients_.at(index)->shape());
  }
  const ShardSpec& spec() const override { return spec_; }
  void connect(std::size_t index, const DeviceTensor& maps) override { connected_.at(index) = &maps; }
  const DeviceTensor& added_gradient(std::size_t index) const override { return *added_gradients_.at(index); }
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) override;
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient, SampleRange samples) override;
  std::vector<float> moments() override {
    return joined([](const Part& part) { return part.shard->moments(); });
  }
  const DeviceTensor& normalise(std::span<const double> joint) override;
  std::vector<float> slopes(const DeviceTensor& output_gradient) override;
  void take_slopes(std::span<const double> joint) override;
  void backward_filters() override {
    for (const Part& part : parts_) part.shard->backward_filters();
  }
  void update(const UpdateStep& step) override {
    for (const Part& part : parts_) part.shard->update(step);
  }
  bool finite() const override {
    return std::ranges::all_of(parts_, [](const Part& part) { return part.shard->finite(); });
  }
  ShardState state() const override;
  void set_state(const ShardState& state) override;
  std::vector<Tensor> gradients() const override;
  void set_gradients(const std::vector<Tensor>& gradients) override;

 private:
  struct Part {
    FilterRange filters;   ///< counted from the shard's first filter
    FilterRange channels;  ///< the channels that these filters read
    std::unique_ptr<Shard> shard;
    std::unique_ptr<DeviceTensor> input;
    std::unique_ptr<DeviceTensor> output_gradient;
    std::vector<std::unique_ptr<DeviceTensor>> added;
  };

  void add_part(const Run& run);
  template <class Find>
  std::vector<float> joined(Find find) const;
  void give_maps(const Part& part, const DeviceTensor& maps, SampleRange samples) {
    output_->take_channels(maps, {0, part.filters.count}, part.filters.first, false, samples);
  }
  void give_added_gradients(const Part& part, SampleRange samples);

  Device& device_;
  ShardSpec spec_;
  std::vector<Part> parts_;
  std::unique_ptr<DeviceTensor> output_;
  std::unique_ptr<DeviceTensor> input_gradient_;  ///< zero for channels that no part reads
  std::vector<std::unique_ptr<DeviceTensor>> added_gradients_;
  std::vector<const DeviceTensor*> connected_;
};

ShardInParts::ShardInParts(Device& device, const ShardSpec& spec, bool groups_together)
    : device_(device),
      spec_(spec),
      output_(device.make_tensor(output_shape(spec.stage, spec.batch, spec.filters.count))) {
  if (spec.input_gradient) input_gradient_ = device.make_tensor(input_shape(spec.stage, spec.batch));
  for (const Shape& shape : added_shapes(spec.stage, spec.batch, spec.filters.count)) {
    added_gradients_.push_back(device.make_tensor(shape));
  }
  connected_.resize(added_gradients_.size(), nullptr);
  for (const Run& run : runs_of(spec, groups_together)) add_part(run);
}

void ShardInParts::add_part(const Run& run) {
  const FilterRange channels = channels_for(spec_.stage, run.filters);
  ShardSpec all = spec_;
  all.stage.channels = channels.count;
  all.stage.conv.filters = run.filters.count;
  all.stage.conv.groups = run.groups;
  // The range keeps its place in the net's stage, because dropout draws its mask by channel number.
  all.filters = run.filters;
  Part part{.filters = {run.filters.first - spec_.filters.first, run.filters.count},
            .channels = channels,
            .shard = device_.compile(all),
            .input = nullptr,
            .output_gradient = nullptr,
            .added = {}};
  part.input = part.shard->make_input();
  part.output_gradient = part.shard->make_output_gradient();
  for (std::size_t i = 0; i < added_gradients_.size(); ++i) {
    part.added.push_back(part.shard->make_added(i));
    part.shard->connect(i, *part.added.back());
  }
  parts_.push_back(std::move(part));
}

const DeviceTensor& ShardInParts::forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) {
  const SampleRange made = spec_.ready_after_forward(samples, pass);
  for (const Part& part : parts_) {
    part.input->take_channels(input, part.channels, 0, false, samples);
    for (std::size_t i = 0; i < part.added.size(); ++i) {
      invariant(connected_[i] != nullptr, "connect is called before forward");
      part.added[i]->take_channels(*connected_[i], part.filters, 0, false, samples);
    }
    const DeviceTensor& maps = part.shard->forward(*part.input, pass, samples);
    if (made.count > 0) give_maps(part, maps, made);
  }
  return *output_;
}

const DeviceTensor* ShardInParts::backward_input(const DeviceTensor& output_gradient, SampleRange samples) {
  const SampleRange taken = spec_.read_by_backward(samples);
  for (const Part& part : parts_) {
    if (taken.count > 0) part.output_gradient->take_channels(output_gradient, part.filters, 0, false, taken);
    const DeviceTensor* gradient = part.shard->backward_input(*part.output_gradient, samples);
    if (taken.count > 0) give_added_gradients(part, taken);
    if (gradient == nullptr) continue;
    input_gradient_->take_channels(*gradient, {0, part.channels.count}, part.channels.first, false, samples);
  }
  return input_gradient_.get();
}

void ShardInParts::give_added_gradients(const Part& part, SampleRange samples) {
  for (std::size_t i = 0; i < part.added.size(); ++i) {
    added_gradients_[i]->take_channels(part.shard->added_gradient(i), {0, part.filters.count}, part.filters.first,
                                       false, samples);
  }
}

/// Returns the moments or slopes of all parts, each of which find() returns.
template <class Find>
std::vector<float> ShardInParts::joined(Find find) const {
  std::vector<float> all(2 * static_cast<std::size_t>(spec_.filters.count));
  for (const Part& part : parts_) put_statistics<float>(find(part), part.filters, all);
  return all;
}

const DeviceTensor& ShardInParts::normalise(std::span<const double> joint) {
  for (const Part& part : parts_) {
    give_maps(part, part.shard->normalise(statistics_of(joint, part.filters)), {0, spec_.batch});
  }
  return *output_;
}

std::vector<float> ShardInParts::slopes(const DeviceTensor& output_gradient) {
  return joined([&](const Part& part) {
    part.output_gradient->take_channels(output_gradient, part.filters, 0, false);
    return part.shard->slopes(*part.output_gradient);
  });
}

void ShardInParts::take_slopes(std::span<const double> joint) {
  for (const Part& part : parts_) {
    part.shard->take_slopes(statistics_of(joint, part.filters));
    give_added_gradients(part, {0, spec_.batch});
  }
}

ShardState ShardInParts::state() const {
  ShardState whole = zero_state(spec_.stage, spec_.filters.count);
  for (const Part& part : parts_) paste(part.shard->state(), part.filters, whole);
  return whole;
}

void ShardInParts::set_state(const ShardState& state) {
  for (const Part& part : parts_) part.shard->set_state(slice(state, part.filters));
}

std::vector<Tensor> ShardInParts::gradients() const {
  const std::vector<ParameterSpec> specs = parameters_of(spec_.stage, spec_.filters.count);
  std::vector<Tensor> all;
  for (const ParameterSpec& each : specs) all.push_back(each.trained ? Tensor(each.shape) : Tensor());
  for (const Part& part : parts_) {
    const std::vector<Tensor> some = part.shard->gradients();
    for (std::size_t p = 0; p < specs.size(); ++p) {
      if (specs[p].trained) std::ranges::copy(some[p].span(), &all[p].at(part.filters.first, 0));
    }
  }
  return all;
}

void ShardInParts::set_gradients(const std::vector<Tensor>& gradients) {
  for (const Part& part : parts_) {
    std::vector<Tensor> some;
    for (const Tensor& each : gradients) {
      Shape shape = each.shape();
      shape.n = std::min(shape.n, part.filters.count);  // none where the parameter is not trained
      const auto values = each.size() == 0 ? each.span() : each.samples(part.filters.first, part.filters.count);
      std::ranges::copy(values, some.emplace_back(shape).data());
    }
    part.shard->set_gradients(some);
  }
}

}  // namespace

int groups_in(const ShardSpec& spec) {
  return channels_for(spec.stage, spec.filters).count / (spec.stage.channels / spec.stage.conv.groups);
}

std::unique_ptr<Shard> compile_in_parts(Device& device, const ShardSpec& spec, bool groups_together) {
  return std::make_unique<ShardInParts>(device, spec, groups_together);
}

}  // namespace convoy
