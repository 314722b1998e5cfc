// Batches of a data set: shuffled, augmented and normalised. All random numbers come from the run's seed.
#pragma once

#include <cstdint>
#include <future>
#include <vector>

#include "core/tensor.hpp"
#include "data/dataset.hpp"

namespace convoy {

enum class Part : std::uint8_t { training, test };

/// The mean and standard deviation of each channel over the training images, or over 512 of them if they are
/// photographs.
std::vector<ChannelScale> scales_of(const DataSet& data);
/// For each channel, a table with the normalised value of each of the 256 byte values.
std::vector<std::vector<float>> scaled_bytes(const std::vector<ChannelScale>& scales);

/// The batches of one part of a data set. A batch is a function of (seed, epoch, index), so a run can resume at any
/// step.
class Batches {
 public:
  /// `data` must outlive the batches. `scales` has one entry for each channel; if it is empty, scales_of(data) is used.
  /// An image is cut from the middle of a photograph, or in training with augment.crop from a random place. While a
  /// batch of photographs is used, the next one is decoded on all cores. Throws Error if a training batch is larger
  /// than the training set.
  Batches(const DataSet& data, Part part, int batch, std::uint64_t seed, const Augmentation& augment,
          const std::vector<ChannelScale>& scales = {});

  /// The number of batches in an epoch. Training leaves out an incomplete last batch, whose images differ from epoch to
  /// epoch because of the shuffling. Testing fills it up with zeros.
  int count() const;
  /// The shape of the images of a batch: (batch, channels, rows, columns).
  Shape image_shape() const;
  /// Writes batch `index` of epoch `epoch`, both counted from 0. Returns the number of samples that are images; the
  /// samples after them are zero. Throws Error naming a photograph that cannot be decoded.
  int fill(int epoch, int index, Tensor& images, std::vector<int>& labels) const;

 private:
  /// The epoch and index of a batch.
  struct Place {
    int epoch = -1;
    int index = -1;
    bool operator==(const Place&) const = default;
  };

  std::vector<int> order_of(int epoch) const;
  std::vector<int> images_of(Place place) const;
  void take_photographs(Place place, Tensor& images) const;
  Tensor decoded(Place place) const;
  void write_image(int image, int epoch, float* to) const;
  void write_photograph(int image, int epoch, float* to) const;

  const ImageSet& images_;
  Part part_;
  int batch_;
  std::uint64_t seed_;
  Augmentation augment_;
  std::vector<std::vector<float>> normalised_;  ///< for each channel, the value of each byte
  mutable std::vector<int> order_;              ///< order of the images in epoch shuffled_
  mutable int shuffled_ = -1;
  mutable Place ahead_;               ///< the batch that is decoded in the background
  mutable std::future<Tensor> next_;  ///< images of batch ahead_
};

}  // namespace convoy
