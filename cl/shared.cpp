#include "cl/shared.hpp"

namespace convoy {

const ClTensor& own_tensor(const ClShared& shared, const DeviceTensor& tensor) {
  const auto* ours = dynamic_cast<const ClTensor*>(&tensor);
  invariant(ours != nullptr && &ours->context() == &shared.context, "the tensor belongs to this device");
  return *ours;
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
