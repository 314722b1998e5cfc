#include "devices/paced_device.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "core/files.hpp"

namespace convoy {
namespace {

constexpr std::string_view kPacedPrefix = "paced:";

/// Returns the number that the whole text is, or nothing.
std::optional<double> number_in(const std::string& text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Returns the member of this name, or the first one for an empty name.
const MemberProfile& member_of(const Calibration& calibration, const std::string& name, const std::string& file) {
  if (name.empty()) return calibration.members.front();
  const auto found = std::ranges::find(calibration.members, name, &MemberProfile::name);
  if (found != calibration.members.end()) return *found;
  std::vector<std::string> names;
  for (const MemberProfile& member : calibration.members) names.push_back(member.name);
  fail("{}: it has no member '{}'; its members are {}", file, name, fmt::join(names, ", "));
}

class PacedTensor final : public DeviceTensor {
 public:
  explicit PacedTensor(const Shape& shape) : shape_(shape) {}
  Shape shape() const override { return shape_; }
  void take_channels(const DeviceTensor&, FilterRange, int, bool, SampleRange) override {}
  void write(SampleRange, std::span<const float>) override {}
  bool write_pixels(SampleRange, std::span<const std::uint8_t>, const Normaliser&) override { return true; }
  void read(SampleRange, std::span<float> values) const override { std::ranges::fill(values, 0.0F); }

 private:
  Shape shape_;
};

class PacedShard final : public Shard {
 public:
  PacedShard(const ShardSpec& spec, const Timing& passes, const Spend& spend)
      : spec_(spec),
        passes_(passes),
        spend_(spend),
        output_(output_shape(spec.stage, spec.batch, spec.filters.count)),
        input_gradient_(input_shape(spec.stage, spec.batch)) {
    for (const Shape& shape : added_shapes(spec.stage, spec.batch, spec.filters.count)) added_.emplace_back(shape);
  }

  const ShardSpec& spec() const override { return spec_; }
  std::unique_ptr<DeviceTensor> make_input() const override {
    return std::make_unique<PacedTensor>(input_gradient_.shape());
  }
  std::unique_ptr<DeviceTensor> make_output_gradient() const override {
    return std::make_unique<PacedTensor>(output_.shape());
  }
  std::unique_ptr<DeviceTensor> make_added(std::size_t index) const override {
    return std::make_unique<PacedTensor>(added_.at(index).shape());
  }
  void connect(std::size_t, const DeviceTensor&) override {}
  const DeviceTensor& added_gradient(std::size_t index) const override { return added_.at(index); }

  const DeviceTensor& forward(const DeviceTensor&, const Pass&, SampleRange samples) override {
    spend_(part(passes_.forward, passes_.forward_call, samples));
    return output_;
  }
  const DeviceTensor* backward_input(const DeviceTensor&, SampleRange samples) override {
    spend_(part(passes_.backward_input, passes_.input_call, samples));
    return spec_.input_gradient ? &input_gradient_ : nullptr;
  }
  void backward_filters() override { spend_(passes_.backward_filters); }
  void update(const UpdateStep&) override { spend_(passes_.update); }

  std::vector<float> moments() override {
    std::vector<float> moments = slopes(output_);
    std::fill(moments.begin() + spec_.filters.count, moments.end(), 1.0F);  // the variances
    return moments;
  }
  const DeviceTensor& normalise(std::span<const double>) override { return output_; }
  std::vector<float> slopes(const DeviceTensor&) override {
    return std::vector<float>(2 * static_cast<std::size_t>(spec_.filters.count), 0.0F);
  }
  void take_slopes(std::span<const double>) override {}

  bool finite() const override { return true; }
  ShardState state() const override { return zero_state(spec_.stage, spec_.filters.count); }
  void set_state(const ShardState&) override {}
  std::vector<Tensor> gradients() const override {
    std::vector<Tensor> gradients;
    for (const ParameterSpec& each : parameters_of(spec_.stage, spec_.filters.count)) {
      gradients.push_back(each.trained ? Tensor(each.shape, 0.0F) : Tensor());
    }
    return gradients;
  }
  void set_gradients(const std::vector<Tensor>&) override {}

 private:
  /// The part of a pass over the whole batch that falls to some samples, of which `call` comes with every call.
  double part(double whole, double call, SampleRange samples) const {
    return call + (whole - call) * samples.count / spec_.batch;
  }

  ShardSpec spec_;
  Timing passes_;
  const Spend& spend_;
  PacedTensor output_;
  PacedTensor input_gradient_;
  std::vector<PacedTensor> added_;
};

}  // namespace

bool is_paced(std::string_view name) { return name.starts_with(kPacedPrefix); }

void expect_computing(const std::string& name, const std::string& purpose) {
  if (!is_paced(name)) return;
  fail("device {} computes nothing, so there is nothing to {}; take another --device", name, purpose);
}

PaceProfile::PaceProfile(const std::string& text) {
  constexpr double kMost = 1e9;
  if (const auto speed = number_in(text)) {
    if (!(*speed > 0.0 && *speed <= kMost)) {
      fail("device {}{}: the speed must be above 0 and at most {} GFLOP/s", kPacedPrefix, text, kMost);
    }
    gflops_ = *speed;
    description_ = fmt::format("paced at {:g} GFLOP/s: it computes nothing", gflops_);
    return;
  }
  if (text.empty()) {
    fail(
        "device {}: a profile is missing; write a speed in GFLOP/s, such as paced:240, or the calibration.json of a "
        "run",
        kPacedPrefix);
  }
  const std::size_t mark = text.rfind('#');
  const std::string file = text.substr(0, mark);
  calibration_ = calibration_from_json(read_text(file), file);
  member_ = member_of(calibration_, mark == std::string::npos ? "" : text.substr(mark + 1), file);
  description_ = fmt::format("paced as {} in {}: it computes nothing", member_->name, file);
}

bool PaceProfile::knows(const std::string& stage) const {
  return !member_ || std::ranges::find(calibration_.stages, stage) != calibration_.stages.end();
}

Timing PaceProfile::passes(const ShardSpec& spec) const {
  const int filters = spec.filters.count;
  if (!member_) {
    return timing_at(gflops_, HostSpeed{}.memory, spec.stage, filters, spec.batch, spec.input_gradient);
  }
  const auto found = std::ranges::find(calibration_.stages, spec.stage.name);
  const auto stage = static_cast<std::size_t>(found - calibration_.stages.begin());
  if (found == calibration_.stages.end() || member_->stages[stage].empty()) {
    fail("the device is {}, which was not timed for stage {}; it was for {}", description_, spec.stage.name,
         fmt::join(calibration_.stages, ", "));
  }
  return predict_passes(*member_, stage, filters).for_samples(static_cast<double>(spec.batch) / calibration_.batch);
}

HeadTimes PaceProfile::heads(double flops, int batch) const {
  if (member_) {
    HeadTimes times = calibration_.master.head;
    times.update *= static_cast<double>(batch) / calibration_.batch;
    return times;
  }
  const double product = flops / (1e9 * gflops_);
  return {.fixed = 0.0, .per_image = 2 * product, .update = product * batch};
}

PacedDevice::PacedDevice(const std::string& profile, Spend spend) : profile_(profile), spend_(std::move(spend)) {
  if (!spend_) {
    spend_ = [pacer = std::make_shared<Pacer>()](double seconds) { pacer->spend(seconds); };
  }
  info_ = {.name = std::string(kPacedPrefix) + profile,
           .description = profile_.description(),
           .filter_block = profile_.filter_block(),
           .paced = true};
}

std::unique_ptr<Shard> PacedDevice::compile(const ShardSpec& spec) {
  return std::make_unique<PacedShard>(spec, profile_.passes(spec), spend_);
}

std::unique_ptr<DeviceTensor> PacedDevice::make_tensor(const Shape& shape) {
  return std::make_unique<PacedTensor>(shape);
}

}  // namespace convoy
