// Batches of a data set: shuffled and augmented. All random numbers come from the run's seed.
#pragma once

#include <cstdint>
#include <future>
#include <span>
#include <vector>

#include "core/images.hpp"
#include "core/random.hpp"
#include "data/dataset.hpp"
#include "data/image_file.hpp"

namespace convoy {

/// The images of a data set that batches are made of. Validation takes the test images if the set has no validation
/// images.
enum class Part : std::uint8_t { training, validation, test };

/// The mean and standard deviation of each channel over the training images, or over 512 of them if they are
/// photographs.
std::vector<ChannelScale> scales_of(const DataSet& data);

/// The images with which the images of a batch were mixed.
struct Mixture {
  std::vector<int> others;  ///< for each image, the class of the image mixed in; empty if no image was mixed
  double share = 1.0;       ///< the share of each image in its mixture, a multiple of 1/65536
};

/// The batches of one part of a data set. A batch is a function of (seed, epoch, index), so a run can resume at any
/// step.
class Batches {
 public:
  /// `data` must outlive the batches. `scales` has one entry for each channel; if it is empty, scales_of(data) is used.
  /// An image is cut from the middle of a photograph, or in training with augment.crop from a random place and with
  /// augment.resized_crop from a random part. While a batch of photographs is used, the next one is decoded on all
  /// cores. Throws Error if a training batch is larger than the training set.
  Batches(const DataSet& data, Part part, int batch, std::uint64_t seed, const Augmentation& augment,
          const std::vector<ChannelScale>& scales = {});

  /// The number of batches in an epoch. Training leaves out an incomplete last batch, whose images differ from epoch to
  /// epoch because of the shuffling. Testing fills it up with black images.
  int count() const;
  /// The shape of the images of a batch: (batch, channels, rows, columns).
  Shape image_shape() const;
  /// A batch of black images, for fill(), with the scales of this set.
  Images blank() const;
  /// Writes the pixels of batch `index` of epoch `epoch`, both counted from 0, to images made by blank(). Returns the
  /// number of samples that are images of the set; those after them are black. Names the originals of the samples,
  /// unless each sample is changed so much that it will not come again. Throws Error naming a photograph that cannot be
  /// decoded.
  int fill(int epoch, int index, Images& images, std::vector<int>& labels) const;
  /// If augment.mixup is set, mixes each image of a training batch, which fill() wrote, with an image of the same
  /// batch; else it changes nothing. `classes` has the classes that fill() gave.
  Mixture mix(int epoch, int index, Images& images, std::span<const int> classes) const;
  /// Returns the numbers, in the set, of the images of batch `index` of epoch `epoch`.
  std::vector<int> numbers(int epoch, int index) const { return images_of({epoch, index}); }

 private:
  /// The epoch and index of a batch.
  struct Place {
    int epoch = -1;
    int index = -1;
    bool operator==(const Place&) const = default;
  };

  std::vector<int> order_of(int epoch) const;
  std::vector<int> images_of(Place place) const;
  void take_photographs(Place place, Pixels& pixels) const;
  Pixels decoded(Place place) const;
  Original write_image(int image, int epoch, std::span<std::uint8_t> pixels) const;
  bool repeats() const;
  void write_photograph(int image, int epoch, std::span<std::uint8_t> to) const;
  void write_part(const Picture& picture, bool flip, Random& random, std::span<std::uint8_t> to) const;
  void change(Random& random, std::span<std::uint8_t> pixels) const;

  const ImageSet& images_;
  Part part_;
  int batch_;
  std::uint64_t seed_;
  Augmentation augment_;
  std::vector<ChannelScale> scales_;
  std::vector<std::uint8_t> means_;  ///< for each channel, the byte that is nearest to its mean
  mutable std::vector<int> order_;   ///< order of the images in epoch shuffled_
  mutable int shuffled_ = -1;
  mutable Place ahead_;               ///< the batch that is decoded in the background
  mutable std::future<Pixels> next_;  ///< images of batch ahead_
};

}  // namespace convoy
