#include "devices/calibrate.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "core/stopwatch.hpp"
#include "devices/pass_times.hpp"

namespace convoy {
namespace {

/// Evicts earlier results from the caches, because in a training step other stages and micro-batches come between the
/// forward and the backward pass of a stage. Timed back to back, the passes of SqueezeNet took 20 % less than in its
/// training steps; with cold caches they took 5 % less.
class ColdCaches {
 public:
  void make() {
    std::array<float, 16> sums{};  // one cache line
    for (std::size_t i = 0; i < other_.size(); i += sums.size()) sums[(i / sums.size()) % sums.size()] += other_[i];
    for (const float sum : sums) read_ = read_ + sum;
  }

 private:
  // In a simulation only computing takes time.
  std::vector<float> other_ = std::vector<float>(Clock::is_real() ? std::size_t{8} << 20 : 0, 1.0F);
  volatile float read_ = 0.0F;  // keeps compilers from removing the reads
};

}  // namespace

TimingEffort timing_effort(std::size_t stages) {
  constexpr std::size_t kFew = 16;
  constexpr std::size_t kMany = 32;
  if (stages <= kFew) return {};
  return {.halves = false, .all_calls = false, .repeats = stages <= kMany ? 2 : 1};
}

std::vector<int> calibration_filters(const Stage& stage, const TimingEffort& effort) {
  const int whole = stage.conv.filters;
  const int least = std::min(16, whole);
  std::vector<int> counts{least, std::max(least, whole / 2), whole};
  if (!effort.halves) counts = {std::max(least, whole / 4), whole};
  // Channels that pass unchanged into pooling and the like take time in proportion to their number.
  if (!effort.halves && stage.kind == StageKind::channels) counts = {whole};
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

int calibration_batch(int batch) { return std::clamp(batch / 4, 1, 16); }

Timing time_shard(Device& device, const ShardSpec& spec, int repeats) {
  std::optional<TimeOfSleeps> known;
  if (device.info().paced) {
    known.emplace();
    repeats = 1;  // all rounds are equal
  }
  const std::unique_ptr<Shard> shard = device.compile(spec);
  const auto input = shard->make_input();
  const auto gradient = shard->make_output_gradient();
  input->write(Tensor(input->shape(), 0.5F).span());
  gradient->write(Tensor(gradient->shape(), 0.5F).span());
  std::vector<std::unique_ptr<DeviceTensor>> added;
  for (std::size_t i = 0; i < added_shapes(spec.stage, spec.batch, spec.filters.count).size(); ++i) {
    added.push_back(shard->make_added(i));
    added.back()->write(Tensor(added.back()->shape(), 0.5F).span());
    shard->connect(i, *added.back());
  }

  const Stopwatch whole;
  const std::array<std::function<void()>, 4> passes{
      [&] { shard->forward(*input, {.training = true, .seed = 0}); },
      [&] { shard->backward_input(*gradient); },
      [&] { shard->backward_filters(); },
      [&] {
        // A replica of the net never updates.
        if (spec.stage.moments > 0) shard->update({.learning_rate = 0.0F});
      },
  };
  constexpr int kFewestForMedian = 3;
  constexpr double kLongEnoughIfShared = 0.2;
  static thread_local ColdCaches caches;  // kept, because filling it anew costs as much as many a pass
  PassTimes times(passes.size(), device.info().threads);
  for (int round = 0; round <= repeats || (times.shared() && whole.seconds() < kLongEnoughIfShared); ++round) {
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const bool follows = i >= 2;  // the gradient of the filters, which comes next in training as well, and the update
      if (round > 0 && !follows) times.add_between(time_of([&] { caches.make(); }));
      const Times pass = time_of([&] {
        passes[i]();
        device.finish();
      });
      if (round > 0) times.add(i, pass);
    }
    if (round > 0 && whole.seconds() > (round < kFewestForMedian ? 6.0 : 2.0)) break;
  }
  constexpr double kLeast = 1e-9;  // the clock counts nanoseconds, and a paced machine may take less
  return {.filters = spec.filters.count,
          .forward = std::max(times.typical(0), kLeast),
          .backward_input = times.typical(1),
          .backward_filters = times.typical(2),
          .update = times.typical(3)};
}

HostTimes time_host(const DeviceInfo& device) {
  // A paced machine has cores to spare for its traffic, and adds as fast as a described one.
  if (device.paced) return {.memory = HostSpeed{}.memory, .spare = true};
  constexpr double kLongEnough = 0.05;
  if (!Clock::is_real()) {
    // A simulated run must not depend on the machine on which it is simulated.
    Clock::sleep_for(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kLongEnough)));
    return {.memory = 5e9};
  }
  std::vector<float> sum(std::size_t{1} << 21, 1.0F);  // 8 MiB, more than the caches of a core hold
  const std::vector<float> part(sum.size(), 0.5F);
  double bytes = 0.0;
  const Times times = time_of([&] {
    const Stopwatch watch;
    while (watch.seconds() < kLongEnough) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
      bytes += 3.0 * static_cast<double>(sum.size() * sizeof(float));
    }
  });
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const bool known = sched_getaffinity(0, sizeof cores, &cores) == 0;
  return {.memory = bytes / times.passed,
          .slowdown = times.slowdown(),
          .spare = known && CPU_COUNT(&cores) > device.threads};
}

HostSpeed host_speed(const HostTimes& times, double worked, double bytes) {
  return {.busy_per_byte = times.spare ? 0.0 : worked * times.slowdown / bytes, .memory = times.memory};
}

double measure_speed(Device& device) {
  const Stage stage{.name = "speed",
                    .channels = 64,
                    .height = 16,
                    .width = 16,
                    .conv = {.filters = 64, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
                    .after = {Activation::relu}};
  // The batch grows until a pass takes longer than a launch, so that slow devices are not timed for long.
  for (int batch = 1;; batch *= 4) {
    const double seconds = time_shard(device, {.stage = stage, .filters = {0, 64}, .batch = batch}, 3).seconds();
    if (seconds > 0.02 || batch >= 256) return 3.0 * conv_flops(stage, batch, 64) / seconds / 1e9;
  }
}

}  // namespace convoy
