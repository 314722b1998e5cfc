#include "master/cluster/head_place.hpp"

#include <utility>

#include "devices/paced_device.hpp"
#include "devices/registry.hpp"
#include "master/cluster/described_machines.hpp"
#include "model/device_dense.hpp"
#include "plan/profile.hpp"

namespace convoy {

std::optional<HeadPace> pace_of_heads(const Cut& cut, int batch, const Device& device) {
  const PacedDevice* paced = as_paced(device);
  if (paced == nullptr) return std::nullopt;
  const HeadTimes times = paced->profile().heads(head_flops(cut), batch);
  return HeadPace{times.fixed, times.per_image, times.update, paced->spend()};
}

HeadPlace place_of_heads(const NetOptions& options, const Cut& cut, int batch, Device& device,
                         std::function<void(const std::string&)> notice) {
  const int threads = options.device_options.threads;
  auto pace = pace_of_heads(cut, batch, device);
  if (pace && options.heads == HeadsOn::device) {
    fail("--heads device has no meaning with --device {}: a paced device computes no heads; leave out --heads",
         options.device);
  }
  const bool on_device =
      options.heads == HeadsOn::device || (options.heads == HeadsOn::automatic && has_memory_of_its_own(device));
  return {threads, std::move(pace), on_device ? &device : nullptr, std::move(notice)};
}

std::size_t head_bytes(const Cut& cut, int batch) {
  std::size_t bytes = 0;
  for (const CutHead& head : cut.heads) {
    int features = head.maps.size();
    for (const Layer& layer : head.layers) {
      const auto* dense = std::get_if<Dense>(&layer.spec);
      if (dense == nullptr) continue;
      Stage stage = dense_stage(layer.name, {1, features}, dense->units);
      stage.conv.rate = layer.rate;
      stage.moments = cut.moments;
      bytes += shard_bytes(stage, dense->units, batch, true);
      features = dense->units;
    }
  }
  return bytes;
}

}  // namespace convoy
