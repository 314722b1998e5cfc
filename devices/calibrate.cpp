#include "devices/calibrate.hpp"

#include <algorithm>
#include <chrono>

namespace convoy {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::vector<int> calibration_filters(const Stage& stage) {
  const int whole = stage.conv.filters;
  std::vector<int> counts{std::min(16, whole), std::max(std::min(16, whole), whole / 2), whole};
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

int calibration_batch(int batch) { return std::clamp(batch / 4, 1, 16); }

double time_shard(Device& device, const ShardSpec& spec, int repeats) {
  const std::unique_ptr<Shard> shard = device.compile(spec);
  const auto input = shard->make_input();
  const auto gradient = shard->make_output_gradient();
  input->write(Tensor(input->shape(), 0.5F).span());
  gradient->write(Tensor(gradient->shape(), 0.5F).span());

  std::vector<double> seconds;
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round <= repeats; ++round) {
    const auto start = std::chrono::steady_clock::now();
    shard->forward(*input, {.training = true, .seed = 0});
    shard->backward(*gradient);
    device.finish();
    if (round > 0) seconds.push_back(seconds_since(start));
    if (!seconds.empty() && seconds_since(begin) > 2.0) break;
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

double measure_speed(Device& device) {
  const Stage stage{.name = "speed",
                    .channels = 64,
                    .height = 16,
                    .width = 16,
                    .conv = {.filters = 64, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
                    .after = {Activation::relu}};
  // Larger batches until the time is more than a launch's: slow devices are not kept waiting for long.
  for (int batch = 1;; batch *= 4) {
    const double seconds = time_shard(device, {.stage = stage, .filters = {0, 64}, .batch = batch}, 3);
    if (seconds > 0.02 || batch >= 256) return 3.0 * conv_flops(stage, batch, 64) / seconds / 1e9;
  }
}

}  // namespace convoy
