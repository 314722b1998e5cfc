// Tests the device that compares two devices: when they agree, and for every way in which they can disagree.

#include "devices/check_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "devices/registry.hpp"
#include "kernels/reference/device.hpp"
#include "tests/support/stage_cases.hpp"

namespace convoy {
namespace {

using testing::AllOf;
using testing::HasSubstr;

enum class Wrong { output, input_gradient, weight_gradient, bias_gradient, update, mean, variance };

/// The reference device with an error in one element of one result.
class WrongShard : public Shard {
 public:
  WrongShard(Wrong wrong, std::unique_ptr<Shard> shard) : wrong_(wrong), shard_(std::move(shard)) {
    output_ = shard_->make_output_gradient();
    gradient_ = shard_->make_input();
  }
  std::unique_ptr<DeviceTensor> make_input() const override { return shard_->make_input(); }
  std::unique_ptr<DeviceTensor> make_output_gradient() const override { return shard_->make_output_gradient(); }
  const ShardSpec& spec() const override { return shard_->spec(); }
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) override {
    return spoilt(Wrong::output, shard_->forward(input, pass, samples), *output_, 1);
  }
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient, SampleRange samples) override {
    // One element in a hundred may differ, but no more.
    return &spoilt(Wrong::input_gradient, *shard_->backward_input(output_gradient, samples), *gradient_, 20);
  }
  std::vector<float> moments() override {
    std::vector<float> moments = shard_->moments();
    if (wrong_ == Wrong::mean) moments.front() += 0.1F;
    if (wrong_ == Wrong::variance) moments.back() *= 1.1F;
    return moments;
  }
  const DeviceTensor& normalise(std::span<const double> joint) override { return shard_->normalise(joint); }
  std::vector<float> slopes(const DeviceTensor& output_gradient) override { return shard_->slopes(output_gradient); }
  void take_slopes(std::span<const double> joint) override { shard_->take_slopes(joint); }
  std::unique_ptr<DeviceTensor> make_added(std::size_t index) const override { return shard_->make_added(index); }
  void connect(std::size_t index, const DeviceTensor& maps) override { shard_->connect(index, maps); }
  const DeviceTensor& added_gradient(std::size_t index) const override { return shard_->added_gradient(index); }
  void backward_filters() override { shard_->backward_filters(); }
  void update(const UpdateStep& step) override {
    shard_->update(step);
    if (wrong_ != Wrong::update) return;
    ShardState state = shard_->state();
    for (float& weight : state.weights().span()) weight *= 1.01F;
    shard_->set_state(state);
  }
  bool finite() const override { return shard_->finite(); }
  ShardState state() const override { return shard_->state(); }
  void set_state(const ShardState& state) override { shard_->set_state(state); }
  std::vector<Tensor> gradients() const override {
    std::vector<Tensor> gradients = shard_->gradients();
    if (wrong_ == Wrong::weight_gradient) {
      for (float& value : gradients[0].span()) value = -value;
    }
    if (wrong_ == Wrong::bias_gradient) gradients[1].data()[0] = NAN;
    return gradients;
  }
  void set_gradients(const std::vector<Tensor>& gradients) override { shard_->set_gradients(gradients); }

 private:
  const DeviceTensor& spoilt(Wrong wrong, const DeviceTensor& right, DeviceTensor& copy, std::size_t one_in) const {
    if (wrong != wrong_) return right;
    Tensor values(right.shape());
    right.read(values.span());
    if (one_in == 1) {
      values.data()[1] += 1.0F;
    } else {
      for (std::size_t i = 0; i < values.size(); i += one_in) values.data()[i] += 1.0F;
    }
    copy.write(values.span());
    return copy;
  }

  Wrong wrong_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<DeviceTensor> output_;
  std::unique_ptr<DeviceTensor> gradient_;
};

class WrongDevice : public Device {
 public:
  explicit WrongDevice(Wrong wrong) : wrong_(wrong), device_(make_reference_device()) {}
  const DeviceInfo& info() const override { return device_->info(); }
  std::unique_ptr<Shard> compile(const ShardSpec& spec) override {
    return std::make_unique<WrongShard>(wrong_, device_->compile(spec));
  }
  std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) override { return device_->make_tensor(shape); }

 private:
  Wrong wrong_;
  std::unique_ptr<Device> device_;
};

void train_a_step(Device& device) {
  const ShardSpec& spec = stage_case("ShardInTheMiddle").spec;
  const auto shard = device.compile(spec);
  const auto input = shard->make_input();
  const auto gradient = shard->make_output_gradient();
  shard->set_state(random_state(spec));
  input->write(random_input(spec).span());
  gradient->write(random_output_gradient(spec).span());
  shard->forward(*input, {.training = true, .seed = 3});
  shard->backward(*gradient);
  shard->update({.learning_rate = 0.1F, .momentum = 0.9F});
}

TEST(CheckDevice, AgreesWithTheReferenceOnEveryCase) {
  const auto device = make_device("check:reference,cpu", {.threads = 1});
  for (const StageCase& c : stage_cases()) {
    SCOPED_TRACE(c.name);
    // The two devices may differ in which values become NaN beside those that have to.
    expect_agreement(*device, c.spec, 0x1.0p-23, false);
  }
}

TEST(CheckDevice, NamesStageAndPassOfADisagreement) {
  const std::vector<std::pair<Wrong, std::string>> table = {{Wrong::output, "forward"},
                                                            {Wrong::input_gradient, "input gradient"},
                                                            {Wrong::weight_gradient, "gradient of stage.weight"},
                                                            {Wrong::bias_gradient, "gradient of stage.bias"},
                                                            {Wrong::update, "stage.weight after the update"}};
  const std::string stage = stage_case("ShardInTheMiddle").spec.stage.name;
  for (const auto& [wrong, pass] : table) {
    const auto device = make_check_device(make_reference_device(), std::make_unique<WrongDevice>(wrong));
    EXPECT_THAT([&] { train_a_step(*device); },
                testing::ThrowsMessage<Error>(AllOf(HasSubstr("disagree"), HasSubstr(stage), HasSubstr(pass))))
        << pass;
  }
}

/// A shard with half of the samples finds its moments. The other half has the same, so that they are the joint moments.
void find_moments(Device& device) {
  ShardSpec spec = stage_case("BatchNorm").spec;
  spec.whole_micro_batch = 2 * spec.batch;
  const auto shard = device.compile(spec);
  const auto input = shard->make_input();
  shard->set_state(random_state(spec));
  input->write(random_input(spec).span());
  shard->forward(*input, {.training = true, .seed = 3});
  const std::vector<float> moments = shard->moments();
  shard->normalise(std::vector<double>(moments.begin(), moments.end()));
}

TEST(CheckDevice, ComparesTheStatisticsOfABatchNorm) {
  for (const auto& [wrong, text] :
       {std::pair{Wrong::mean, "means of a batch norm"}, std::pair{Wrong::variance, "variances of a batch norm"}}) {
    const auto device = make_check_device(make_reference_device(), std::make_unique<WrongDevice>(wrong));
    EXPECT_THAT([&] { find_moments(*device); }, testing::ThrowsMessage<Error>(HasSubstr(text)));
  }
  const auto device = make_check_device(make_reference_device(), make_reference_device());
  EXPECT_NO_THROW(find_moments(*device));
}

}  // namespace
}  // namespace convoy
