#include "study/work.hpp"

#include "core/random.hpp"
#include "core/shard_state.hpp"
#include "plan/profile.hpp"

namespace convoy::study {
namespace {

void fill_with_random(DeviceTensor& tensor) {
  Random random(1, 1);
  Tensor values(tensor.shape());
  for (float& value : values.span()) value = random.uniform(-1.0F, 1.0F);
  tensor.write(values.span());
}

/// A convolution with maps and gradients to read.
class OneStage {
 public:
  OneStage(Device& device, const ShardSpec& spec)
      : shard_(device.compile(spec)), input_(shard_->make_input()), gradient_(shard_->make_output_gradient()) {
    fill_with_random(*input_);
    fill_with_random(*gradient_);
    ShardState state = zero_state(spec.stage, spec.filters.count);
    Random random(1, 2);
    for (float& weight : state.weights().span()) weight = random.uniform(-0.1F, 0.1F);
    shard_->set_state(state);
  }
  void forward() { shard_->forward(*input_, {.training = true, .seed = 0}); }
  void backward() {
    shard_->backward(*gradient_);
    shard_->update({.learning_rate = 0.0F});
  }

 private:
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<DeviceTensor> input_;
  std::unique_ptr<DeviceTensor> gradient_;
};

/// The convolutions of the stages alone.
std::vector<Stage> convolutions_of(const std::vector<Stage>& stages) {
  std::vector<Stage> found;
  for (Stage stage : stages) {
    if (stage.kind != StageKind::convolution) continue;
    stage.after.clear();
    stage.from.clear();
    found.push_back(stage);
  }
  if (found.empty()) fail("the net has no convolution, so there is nothing to study");
  return found;
}

}  // namespace

Work work_of(Device& device, const std::vector<Stage>& stages, int batch, std::size_t memory) {
  const std::vector<Stage> convolutions = convolutions_of(stages);
  double bytes = 0;
  double flops = 0;
  for (std::size_t i = 0; i < convolutions.size(); ++i) {
    const Stage& stage = convolutions[i];
    bytes += device.info().memory_factor * static_cast<double>(shard_bytes(stage, stage.conv.filters, batch, i > 0));
    flops += (i > 0 ? 3 : 2) * conv_flops(stage, batch, stage.conv.filters);
  }
  if (bytes > static_cast<double>(memory)) {
    fail("batch {} needs {:.0f} MiB, and {:.0f} MiB are free; use a smaller --batch", batch, bytes / (1 << 20),
         static_cast<double>(memory) / (1 << 20));
  }
  auto shards = std::make_shared<std::vector<std::unique_ptr<OneStage>>>();
  for (std::size_t i = 0; i < convolutions.size(); ++i) {
    const Stage& stage = convolutions[i];
    shards->push_back(std::make_unique<OneStage>(
        device,
        ShardSpec{.stage = stage, .filters = {0, stage.conv.filters}, .batch = batch, .input_gradient = i > 0}));
  }
  const auto step = [shards, &device] {
    for (const auto& shard : *shards) shard->forward();
    for (auto shard = shards->rbegin(); shard != shards->rend(); ++shard) (*shard)->backward();
    device.finish();
  };
  return {.step = step, .images = batch, .flops = flops};
}

}  // namespace convoy::study
