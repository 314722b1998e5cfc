// Training images that are set aside, so that a run chooses its best epoch by images on which it does not train.

#include <algorithm>
#include <cmath>
#include <set>

#include "core/random.hpp"
#include "data/dataset.hpp"

namespace convoy {
namespace {

constexpr std::uint64_t kValidationStream = std::uint64_t{7} << 32;

/// Returns the images of a set that are in `chosen`, or all others, in their order.
ImageSet some_images(const ImageSet& from, const std::set<int>& chosen, bool others) {
  const auto size = static_cast<std::size_t>(from.shape.size());
  ImageSet some{.shape = from.shape, .pixels = {}, .labels = {}, .files = {}, .resize = from.resize};
  for (int image = 0; image < from.count(); ++image) {
    if (chosen.contains(image) == others) continue;
    const auto i = static_cast<std::size_t>(image);
    some.labels.push_back(from.labels[i]);
    if (!from.files.empty()) some.files.push_back(from.files[i]);
    if (from.pixels.empty()) continue;
    const auto first = from.pixels.begin() + static_cast<std::ptrdiff_t>(i * size);
    some.pixels.insert(some.pixels.end(), first, first + static_cast<std::ptrdiff_t>(size));
  }
  return some;
}

}  // namespace

void split_validation(DataSet& data, double fraction, std::uint64_t seed) {
  if (data.validation.count() > 0) {
    fail(
        "{}: the data have images for validation already; leave out --val-split, or move these images to those for "
        "training",
        data.name);
  }
  if (!data.labelled) {
    fail(
        "{}: the training images have no classes, so that none can be set aside to test a net on; leave out "
        "--val-split, or add a folder val with a folder for each class",
        data.name);
  }
  std::set<int> chosen;
  for (int label = 0; label < data.classes; ++label) {
    std::vector<int> images;
    for (int i = 0; i < data.training.count(); ++i) {
      if (data.training.labels[i] == label) images.push_back(i);
    }
    if (images.size() < 2) continue;  // a class keeps an image to train on
    Random random(seed, kValidationStream + static_cast<std::uint64_t>(label));
    random.shuffle(images);
    const auto wanted = static_cast<std::size_t>(std::lround(fraction * static_cast<double>(images.size())));
    images.resize(std::clamp<std::size_t>(wanted, 1, images.size() - 1));
    chosen.insert(images.begin(), images.end());
  }
  if (chosen.empty()) {
    fail("{}: no class has two images for training, so that none can be set aside; leave out --val-split", data.name);
  }
  data.validation = some_images(data.training, chosen, false);
  data.training = some_images(data.training, chosen, true);
}

}  // namespace convoy
