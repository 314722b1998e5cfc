#include "cl/shared.hpp"

namespace convoy {

const ClTensor& own_tensor(const ClShared& shared, const DeviceTensor& tensor) {
  const auto* ours = dynamic_cast<const ClTensor*>(&tensor);
  invariant(ours != nullptr && &ours->context() == &shared.context, "the tensor belongs to this device");
  return *ours;
}

/// Where the device has memory of its own, the caller writes floats.
bool ClTensor::write_pixels(SampleRange samples, std::span<const std::uint8_t> pixels, const Normaliser& normaliser) {
  invariant(pixels.size() == size_of(samples.count), "the pixels fill the samples");
  if (!shared_.context.shares_memory()) return false;
  const auto map = static_cast<std::size_t>(shape_.h) * static_cast<std::size_t>(shape_.w);
  shared_.context.write_in_place(buffer_, size_of(samples.first), pixels.size(), [&](float* memory) {
    normaliser.normalise(pixels, {0, shape_.c}, map, memory);
  });
  return true;
}

void ClTensor::take_channels(const DeviceTensor& from, FilterRange channels, int first, bool added,
                             SampleRange samples) {
  const ClTensor& other = own_tensor(shared_, from);
  const Shape there = other.shape();
  const Shape run{shape_.n, channels.count, shape_.h, shape_.w};
  invariant(there.n == run.n && there.h == run.h && there.w == run.w, "both tensors have maps of the same shape");
  invariant(channels.first + channels.count <= there.c && first + channels.count <= shape_.c, "the channels exist");
  if (channels.count == 0 || samples.count == 0) return;
  shared_.take_channels(other.buffer(), {there.c, channels.first}, buffer_, {shape_.c, first}, run, added, samples);
}

}  // namespace convoy
