// Batches of a data set: shuffled, normalised, augmented, all drawn from the run's seed.
#pragma once

#include <cstdint>
#include <future>
#include <vector>

#include "core/tensor.hpp"
#include "data/dataset.hpp"

namespace convoy {

enum class Part : std::uint8_t { training, test };

/// Each channel's mean and deviation over the training images; of photographs, over 512 of them.
std::vector<ChannelScale> scales_of(const DataSet& data);
/// For each channel the 256 values that bytes become.
std::vector<std::vector<float>> scaled_bytes(const std::vector<ChannelScale>& scales);

/// Every batch is a function of (seed, epoch, index), so that a run may go on at any step.
class Batches {
 public:
  /// `data` must outlive this. `scales`: of each channel; empty: scales_of(data). Photographs are cut out of the middle, in training with
  /// augment.crop anywhere; the next batch is decoded, on all cores, while this one is used. Throws Error when a training
  /// batch is larger than the training set.
  Batches(const DataSet& data, Part part, int batch, std::uint64_t seed, const Augmentation& augment,
          const std::vector<ChannelScale>& scales = {});

  /// Batches of one epoch. Training leaves an incomplete last batch out (shuffling makes it another one each time);
  /// testing fills it up with zeros.
  int count() const;
  Shape image_shape() const;
  /// Writes batch `index` of epoch `epoch` (both from 0); returns how many of its samples are images.
  int fill(int epoch, int index, Tensor& images, std::vector<int>& labels) const;

 private:
  /// Which batch.
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
  mutable std::vector<int> order_;              ///< of epoch shuffled_
  mutable int shuffled_ = -1;
  mutable Place ahead_;               ///< what is decoded in the background
  mutable std::future<Tensor> next_;  ///< that
};

}  // namespace convoy
