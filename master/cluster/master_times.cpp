#include "master/cluster/master_times.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "core/stopwatch.hpp"
#include "core/thread_team.hpp"
#include "devices/calibrate.hpp"
#include "kernels/host/matmul.hpp"
#include "master/cluster/described_machines.hpp"
#include "model/head.hpp"
#include "train/local_trunk.hpp"

namespace convoy {
namespace {

/// Returns the seconds of a call of work(): the least mean of three blocks of calls, each of `shortest` seconds or
/// more.
template <class Work>
double seconds_of(const Work& work, double shortest) {
  work();  // allocates memory and fills caches for the later calls
  double least = 1e9;
  for (int block = 0; block < 3; ++block) {
    const Stopwatch watch;
    int calls = 0;
    do {
      work();
      ++calls;
    } while (watch.seconds() < shortest);
    least = std::min(least, watch.seconds() / calls);
  }
  return least;
}

/// Describes everything of the heads on which their time depends.
std::string describe_work(const std::vector<CutHead>& heads) {
  std::string text;
  for (const CutHead& head : heads) {
    text += fmt::format("\nhead on {}x{}x{}", head.maps.channels, head.maps.height, head.maps.width);
    for (const Layer& layer : head.layers) {
      const auto& [channels, height, width] = layer.output;
      text += fmt::format("; kind {} to {}x{}x{}", layer.spec.index(), channels, height, width);
    }
  }
  return text;
}

/// Returns the largest number of images up to an eighth of the batch that divides it, as parts of a batch do.
int part_of_batch(int batch) {
  int part = std::max(1, batch / 8);
  while (batch % part != 0) --part;
  return part;
}

HeadTimes measure_heads(const Cut& cut, int batch, const HeadPlace& place) {
  // A quota may let the process compute in bursts, and shorter blocks would miss its pauses. Side heads share the time.
  const double block = 0.06 / static_cast<double>(cut.heads.size());
  const std::vector<int> labels(static_cast<std::size_t>(batch), 0);
  HeadTimes times;
  for (const CutHead& each : cut.heads) {
    Head<float> head(each, cut.moments, batch, true, dense_at(place));
    const auto finish = [&] {
      if (place.device != nullptr) place.device->finish();
    };
    const Tensor maps({batch, each.maps.channels, each.maps.height, each.maps.width}, 0.5F);
    const auto pass = [&](int count) {
      return seconds_of(
          [&] {
            head.forward(maps, {.training = true, .seed = 0}, {0, count});
            head.loss(labels, batch, {0, count});
            head.backward({0, count});
            finish();
          },
          block);
    };
    const int few = part_of_batch(batch);
    const double whole = pass(batch);
    times.update += seconds_of(
        [&] {
          head.backward_weights();
          if (cut.moments > 0) head.update({.learning_rate = 0.0F});  // the server updates for replicas
          finish();
        },
        block);
    const double part = few < batch ? pass(few) : 0.0;
    const double per_image = std::clamp((whole - part) / std::max(1, batch - few), 0.0, whole / batch);
    times.per_image += per_image;
    times.fixed += std::max(0.0, whole - per_image * batch);  // rounding may leave less than nothing
  }
  return times;
}

}  // namespace

HeadTimes time_heads(const Cut& cut, int batch, HeadPlace place, const Device& device, KnownTimes& times) {
  if (place.pace) return {place.pace->fixed, place.pace->per_image, place.pace->update};
  place.notice = {};  // the learner's heads will say it
  const int threads = place.threads > 0 ? place.threads : hardware_threads();
  set_matmul_threads(threads);
  const std::string work =
      fmt::format("heads{}, batch {}, {} threads, {} moments{}", place.device != nullptr ? " on the device" : "", batch,
                  threads, cut.moments, describe_work(cut.heads));
  const auto measure = [&]() -> KnownTimes::Seconds {
    const HeadTimes measured = measure_heads(cut, batch, place);
    return {measured.fixed, measured.per_image, measured.update};
  };
  // The processor computes heads, or the layers between dense layers. The speed of another device says nothing of it.
  const bool same = device.info().memory == 0;
  const KnownTimes::Seconds seconds = same ? times.of(work, 3, measure) : measure();
  return {.fixed = seconds[0], .per_image = seconds[1], .update = seconds[2]};
}

namespace {

struct TrunkTimes {
  double passes = 1e9;  ///< forward and backward, seconds
  double update = 1e9;
};

/// Returns the least times of some rounds on `images` images.
TrunkTimes time_trunk(const Cut& cut, int images, Device& device) {
  LocalTrunk trunk(cut.trunk, input_shape(cut.trunk.front(), images), device);
  const Images input = noise_images(input_shape(cut.trunk.front(), images), 1, 1);
  TrunkTimes times;
  const Stopwatch whole;
  for (int round = 0; round < 4 && (round < 2 || whole.seconds() < 2.0); ++round) {
    Stopwatch watch;
    trunk.forward(input, {.training = true, .seed = 0});
    std::vector<const Tensor*> gradients;
    for (std::size_t i = 0; i < cut.heads.size(); ++i) gradients.push_back(&trunk.output(i));
    trunk.backward(gradients);
    device.finish();
    times.passes = std::min(times.passes, watch.restart());
    // A net that only computes outputs has no moments, and is never updated.
    if (cut.moments > 0) trunk.update({.learning_rate = 0.0F});
    device.finish();
    times.update = std::min(times.update, watch.seconds());
  }
  return times;
}

}  // namespace

double time_alone(const Cut& cut, int batch, Device& device, KnownTimes& times, std::size_t memory,
                  const HeadTimes& head) {
  const auto sleeps = device.info().paced ? std::make_unique<TimeOfSleeps>() : nullptr;
  std::size_t bytes = 0;
  for (const Stage& stage : cut.trunk) {
    bytes += shard_bytes(stage, stage.conv.filters, batch, &stage != &cut.trunk[0], device.info().filter_block);
  }
  if (memory != 0 && bytes > memory) return 0.0;
  // A short step is timed with the whole batch, because the time of few images need not be in proportion to their
  // number.
  constexpr double kShort = 1.5;
  std::string work = fmt::format("trunk, batch {}", batch);
  for (const Stage& stage : cut.trunk) work.append("\n").append(describe_work(stage));
  const KnownTimes::Seconds trunk = times.of(work, 2, [&]() -> KnownTimes::Seconds {
    int timed = calibration_batch(batch);
    TrunkTimes taken = time_trunk(cut, timed, device);
    while (timed < batch && taken.passes * std::min(4 * timed, batch) / timed < kShort) {
      timed = std::min(4 * timed, batch);
      taken = time_trunk(cut, timed, device);
    }
    return {taken.passes * batch / timed, taken.update};
  });
  return head.pass(batch) + head.update + trunk[0] + trunk[1];
}

}  // namespace convoy
