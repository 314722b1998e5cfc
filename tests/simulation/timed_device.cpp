#include "tests/simulation/timed_device.hpp"

#include <utility>

namespace convoy::simulation {
namespace {

class Worker {
 public:
  Worker(Actor& actor, const Pace& pace, Random random) : actor_(actor), pace_(pace), random_(random) {}
  void work(int filters) {
    const double about = static_cast<double>(random_.uniform(0.5F, 1.5F));
    actor_.work(std::chrono::duration_cast<Time>((pace_.call + pace_.filter * filters) * about));
  }

 private:
  Actor& actor_;
  Pace pace_;
  Random random_;
};

class TimedShard final : public Shard {
 public:
  TimedShard(std::unique_ptr<Shard> shard, std::shared_ptr<Worker> worker)
      : shard_(std::move(shard)), worker_(std::move(worker)) {}

  const ShardSpec& spec() const override { return shard_->spec(); }
  std::unique_ptr<DeviceTensor> make_input() const override { return shard_->make_input(); }
  std::unique_ptr<DeviceTensor> make_output_gradient() const override { return shard_->make_output_gradient(); }
  std::unique_ptr<DeviceTensor> make_added(std::size_t index) const override { return shard_->make_added(index); }
  void connect(std::size_t index, const DeviceTensor& maps) override { shard_->connect(index, maps); }
  const DeviceTensor& added_gradient(std::size_t index) const override { return shard_->added_gradient(index); }
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) override {
    work();
    return shard_->forward(input, pass, samples);
  }
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient, SampleRange samples) override {
    work();
    return shard_->backward_input(output_gradient, samples);
  }
  std::vector<float> moments() override { return shard_->moments(); }
  const DeviceTensor& normalise(std::span<const double> joint) override { return shard_->normalise(joint); }
  std::vector<float> slopes(const DeviceTensor& output_gradient) override { return shard_->slopes(output_gradient); }
  void take_slopes(std::span<const double> joint) override { shard_->take_slopes(joint); }
  void backward_filters() override {
    work();
    shard_->backward_filters();
  }
  void update(const UpdateStep& step) override {
    work();
    shard_->update(step);
  }
  bool finite() const override { return shard_->finite(); }
  ShardState state() const override { return shard_->state(); }
  void set_state(const ShardState& state) override { shard_->set_state(state); }
  std::vector<Tensor> gradients() const override { return shard_->gradients(); }
  void set_gradients(const std::vector<Tensor>& gradients) override { shard_->set_gradients(gradients); }

 private:
  void work() { worker_->work(spec().filters.count); }

  std::unique_ptr<Shard> shard_;
  std::shared_ptr<Worker> worker_;
};

class TimedDevice final : public Device {
 public:
  TimedDevice(std::unique_ptr<Device> device, std::shared_ptr<Worker> worker)
      : device_(std::move(device)), worker_(std::move(worker)) {}

  const DeviceInfo& info() const override { return device_->info(); }
  std::unique_ptr<Shard> compile(const ShardSpec& spec) override {
    worker_->work(spec.filters.count);
    return std::make_unique<TimedShard>(device_->compile(spec), worker_);
  }
  std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) override { return device_->make_tensor(shape); }

 private:
  std::unique_ptr<Device> device_;
  std::shared_ptr<Worker> worker_;
};

}  // namespace

std::unique_ptr<Device> timed_device(std::unique_ptr<Device> device, Actor& actor, const Pace& pace, Random random) {
  return std::make_unique<TimedDevice>(std::move(device), std::make_shared<Worker>(actor, pace, random));
}

}  // namespace convoy::simulation
