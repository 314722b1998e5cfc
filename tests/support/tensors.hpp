// Checks of a device's tensors without shards.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kernels/device.hpp"
#include "tests/support/images.hpp"

namespace convoy {

/// Returns values that differ from element to element.
inline Tensor counted(const Shape& shape, float first) {
  Tensor values(shape);
  for (std::size_t i = 0; i < values.size(); ++i) values.data()[i] = first + static_cast<float>(i);
  return values;
}

inline std::unique_ptr<DeviceTensor> tensor_of(Device& device, const Tensor& values) {
  std::unique_ptr<DeviceTensor> tensor = device.make_tensor(values.shape());
  tensor->write(values.span());
  return tensor;
}

inline Tensor values_of(const DeviceTensor& tensor) {
  Tensor values(tensor.shape());
  tensor.read(values.span());
  return values;
}

/// Runs of channels are copied and added, of all samples and of some, between tensors of different numbers of channels.
/// The second case takes whole blocks of any layout.
inline void expect_channels_are_taken(Device& device) {
  struct Case {
    int channels, to_channels;
    FilterRange taken;
    int first;
  };
  for (const Case& c : {Case{5, 7, {1, 3}, 4}, Case{48, 64, {16, 16}, 32}}) {
    const Tensor from = counted({4, c.channels, 2, 3}, 1.0F);
    const auto source = tensor_of(device, from);
    for (const bool added : {false, true}) {
      for (const SampleRange samples : {SampleRange{0, 4}, SampleRange{1, 2}}) {
        Tensor expected = counted({4, c.to_channels, 2, 3}, 10000.0F);
        const auto target = tensor_of(device, expected);
        target->take_channels(*source, c.taken, c.first, added, samples);
        for (int n = samples.first; n < samples.first + samples.count; ++n) {
          for (std::size_t i = 0; i < static_cast<std::size_t>(c.taken.count) * 6; ++i) {
            float& value = (&expected.at(n, c.first))[i];
            value = (&from.at(n, c.taken.first))[i] + (added ? value : 0.0F);
          }
        }
        EXPECT_THAT(values_of(*target).span(), testing::ElementsAreArray(expected.span()))
            << (added ? "added" : "copied") << ", samples from " << samples.first << " on";
      }
    }
  }
}

/// Pixels are normalised to the bits of Normaliser. The device may leave that to the caller unless it `must`.
inline void expect_pixels_are_taken(Device& device, bool must) {
  Images images = noise_images({3, 3, 5, 4}, 7, 1);
  images.scales = {{0.48, 0.23}, {0.5, 1.0}, {-0.25, 3.0}};
  Normaliser normaliser;
  normaliser.use(images.scales);
  Tensor expected = counted(images.shape(), 1000.0F);
  const auto target = tensor_of(device, expected);
  for (const SampleRange samples : {SampleRange{1, 2}, SampleRange{0, 1}}) {
    const bool taken = target->write_pixels(samples, images.pixels.samples(samples.first, samples.count), normaliser);
    EXPECT_TRUE(taken || !must);
    if (taken) normaliser.normalise(images.pixels, samples, expected);
    EXPECT_THAT(values_of(*target).span(), testing::ElementsAreArray(expected.span()));
  }
}

}  // namespace convoy
