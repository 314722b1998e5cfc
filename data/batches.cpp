#include "data/batches.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/augment.hpp"

namespace convoy {
namespace {

constexpr std::uint64_t kShuffleStream = std::uint64_t{5} << 32;
constexpr std::uint64_t kAugmentStream = std::uint64_t{6} << 32;
constexpr std::uint64_t kMixStream = std::uint64_t{1} << 62;  // streams of images go on with the epochs

/// The random numbers for one image in one epoch. They do not depend on the image's place in the order.
Random drawn_for(std::uint64_t seed, int epoch, int image) {
  return {seed, kAugmentStream + (static_cast<std::uint64_t>(epoch) << 33) + static_cast<std::uint64_t>(image)};
}

const ImageSet& images_for(const DataSet& data, Part part) {
  if (part == Part::training) return data.training;
  return part == Part::validation && data.validation.count() > 0 ? data.validation : data.test;
}

/// Returns an image (channel, row, column) as a picture.
Picture picture_of(const std::uint8_t* image, const FeatureShape& shape) {
  Picture picture{shape, std::vector<std::uint8_t>(static_cast<std::size_t>(shape.size()))};
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t places = picture.pixels.size() / channels;
  for (std::size_t i = 0; i < places; ++i) {
    for (std::size_t c = 0; c < channels; ++c) picture.pixels[i * channels + c] = image[c * places + i];
  }
  return picture;
}

/// Decodes up to 512 photographs, spread evenly over the set, to measure their mean and deviation.
ImageSet some_of(const ImageSet& images) {
  constexpr int kSome = 512;
  const int count = std::min(kSome, images.count());
  const auto size = static_cast<std::size_t>(images.shape.size());
  ImageSet some{
      .shape = images.shape, .pixels = std::vector<std::uint8_t>(size * static_cast<std::size_t>(count)), .labels = {}};
  on_all_cores(count, [&](int i) {
    const auto from = static_cast<std::size_t>(static_cast<long>(i) * images.count() / count);
    const Picture picture = read_image(images.files[from], least_for(images.shape, images.resize));
    cut_view(picture, images.shape, {.resize = images.resize},
             std::span(some.pixels).subspan(size * static_cast<std::size_t>(i), size));
  });
  return some;
}

std::vector<ChannelScale> scales_of(const ImageSet& images) {
  if (!images.files.empty()) return scales_of(some_of(images));
  const FeatureShape& shape = images.shape;
  const std::size_t map = static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
  std::vector<ChannelScale> scales;
  for (int c = 0; c < shape.channels; ++c) {
    std::vector<std::uint64_t> histogram(256, 0);
    for (std::size_t at = static_cast<std::size_t>(c) * map; at < images.pixels.size();
         at += map * static_cast<std::size_t>(shape.channels)) {
      for (std::size_t i = 0; i < map; ++i) ++histogram[images.pixels[at + i]];
    }
    double count = 0.0;
    double sum = 0.0;
    double squares = 0.0;
    for (int value = 0; value < 256; ++value) {
      const double x = value / 255.0;
      const auto times = static_cast<double>(histogram[value]);
      count += times;
      sum += times * x;
      squares += times * x * x;
    }
    const double mean = sum / count;
    scales.push_back({mean, std::sqrt(std::max(squares / count - mean * mean, 1e-8))});
  }
  return scales;
}

}  // namespace

std::vector<ChannelScale> scales_of(const DataSet& data) { return scales_of(data.training); }

Batches::Batches(const DataSet& data, Part part, int batch, std::uint64_t seed, const Augmentation& augment,
                 const std::vector<ChannelScale>& scales)
    : images_(images_for(data, part)),
      part_(part),
      batch_(batch),
      seed_(seed),
      augment_(augment),
      scales_(scales.empty() ? scales_of(data) : scales) {
  for (const ChannelScale& scale : scales_) {
    means_.push_back(static_cast<std::uint8_t>(std::lround(255.0 * std::clamp(scale.mean, 0.0, 1.0))));
  }
  if (part == Part::training && batch > images_.count()) {
    fail("a batch of {} is larger than the training set of {} ({} images); give a smaller --batch", batch, data.name,
         images_.count());
  }
}

int Batches::count() const {
  return part_ == Part::training ? images_.count() / batch_ : (images_.count() + batch_ - 1) / batch_;
}

Shape Batches::image_shape() const {
  return {batch_, images_.shape.channels, images_.shape.height, images_.shape.width};
}

Images Batches::blank() const { return {Pixels(image_shape(), 0), scales_}; }

std::vector<int> Batches::order_of(int epoch) const {
  std::vector<int> order(images_.labels.size());
  std::iota(order.begin(), order.end(), 0);
  if (part_ == Part::training) {
    Random random(seed_, kShuffleStream + static_cast<std::uint64_t>(epoch));
    random.shuffle(order);
  }
  return order;
}

/// The indices of the images of a batch. The last batch of a test may have fewer than batch_.
std::vector<int> Batches::images_of(Place place) const {
  const std::vector<int> order = order_of(place.epoch);
  const auto first = order.begin() + static_cast<std::ptrdiff_t>(place.index) * batch_;
  return {first, first + std::min<std::ptrdiff_t>(batch_, order.end() - first)};
}

int Batches::fill(int epoch, int index, Images& images, std::vector<int>& labels) const {
  invariant(images.shape() == image_shape() && index >= 0 && index < count(),
            "fill takes a batch of this set, and images of its shape");
  if (shuffled_ != epoch) order_ = order_of(epoch);
  shuffled_ = epoch;
  const int first = index * batch_;
  const int valid = std::min(batch_, images_.count() - first);
  labels.assign(static_cast<std::size_t>(batch_), 0);
  images.fill = means_;
  images.originals.assign(repeats() ? static_cast<std::size_t>(batch_) : 0, Original());
  for (int i = 0; i < valid; ++i) {
    const int image = order_[first + i];
    labels[i] = images_.labels[image];
    if (!images_.files.empty()) continue;
    const Original original = write_image(image, epoch, images.pixels.sample(i));
    if (!images.originals.empty()) images.originals[i] = original;
  }
  if (!images_.files.empty()) take_photographs({epoch, index}, images.pixels);
  std::ranges::fill(images.pixels.samples(valid, batch_ - valid), std::uint8_t{0});
  return valid;
}

/// Whether the originals of samples come again. Pixels whose colours are changed or which are scaled to other sizes are
/// new in each epoch, and so are parts of photographs.
bool Batches::repeats() const {
  const bool cut = !images_.files.empty() && augment_.crop > 0;
  const bool mixed = part_ == Part::training && augment_.mixup > 0.0;
  return !(cut || mixed || augment_.resized_crop > 0.0 || augment_.jitters() || augment_.cutout > 0);
}

Mixture Batches::mix(int epoch, int index, Images& images, std::span<const int> classes) const {
  if (part_ != Part::training || augment_.mixup == 0.0) return {};
  Random random(seed_, kMixStream + static_cast<std::uint64_t>(epoch) * static_cast<std::uint64_t>(count()) +
                           static_cast<std::uint64_t>(index));
  const auto share = static_cast<int>(std::lround(draw_share(augment_.mixup, random) * kWholeShare));
  std::vector<int> order(classes.size());
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(order);
  Mixture made{.others = {}, .share = static_cast<double>(share) / kWholeShare};
  const Pixels before = images.pixels;
  for (std::size_t i = 0; i < order.size(); ++i) {
    made.others.push_back(classes[order[i]]);
    mix_pixels(images.pixels.sample(static_cast<int>(i)), before.sample(order[i]), share);
  }
  return made;
}

void Batches::take_photographs(Place place, Pixels& pixels) const {
  pixels = ahead_ == place && next_.valid() ? next_.get() : decoded(place);
  if (place.index + 1 < count()) {
    ahead_ = {place.epoch, place.index + 1};
  } else if (part_ == Part::training) {
    ahead_ = {place.epoch + 1, 0};
  } else {
    return;
  }
  next_ = std::async(std::launch::async | std::launch::deferred, [this, next = ahead_] { return decoded(next); });
}

Pixels Batches::decoded(Place place) const {
  const std::vector<int> chosen = images_of(place);
  Pixels pixels(image_shape());
  on_all_cores(static_cast<int>(chosen.size()),
               [&](int i) { write_photograph(chosen[i], place.epoch, pixels.sample(i)); });
  return pixels;
}

void Batches::write_photograph(int image, int epoch, std::span<std::uint8_t> to) const {
  const std::string& file = images_.files[image];
  Random random = drawn_for(seed_, epoch, image);
  View view{.resize = images_.resize};
  view.flip = augment_.flip && random.below(2) == 1;
  if (augment_.resized_crop > 0.0) {
    // The smallest part is decoded with as many pixels as it needs.
    FeatureShape least = images_.shape;
    least.height = static_cast<int>(std::ceil(least.height / std::sqrt(augment_.resized_crop)));
    least.width = static_cast<int>(std::ceil(least.width / std::sqrt(augment_.resized_crop)));
    write_part(read_image(file, least), view.flip, random, to);
  } else {
    if (augment_.crop > 0) {
      view.down = random.uniform(0.0F, 1.0F);
      view.right = random.uniform(0.0F, 1.0F);
    }
    cut_view(read_image(file, least_for(images_.shape, images_.resize)), images_.shape, view, to);
  }
  change(random, to);
}

/// Scales a random part of a picture to the image's size.
void Batches::write_part(const Picture& picture, bool flip, Random& random, std::span<std::uint8_t> to) const {
  cut_region(picture, images_.shape, random_part(picture.shape, augment_.resized_crop, random), flip, to);
}

/// Changes the colours of an image, and takes a square out.
void Batches::change(Random& random, std::span<std::uint8_t> pixels) const {
  if (augment_.jitters()) jitter_colours(pixels, images_.shape, augment_, random);
  if (augment_.cutout > 0) cut_square_out(pixels, images_.shape, augment_.cutout, means_, random);
}

/// Writes a sample, and returns the image of which it is a view. Colours may be changed afterwards; see repeats().
Original Batches::write_image(int image, int epoch, std::span<std::uint8_t> pixels) const {
  const FeatureShape& shape = images_.shape;
  Random random = drawn_for(seed_, epoch, image);
  const auto size = static_cast<std::size_t>(shape.size());
  const std::span<const std::uint8_t> from =
      std::span(images_.pixels).subspan(static_cast<std::size_t>(image) * size, size);
  ImageView view{.flip = augment_.flip && random.below(2) == 1};
  if (augment_.resized_crop > 0.0) {
    write_part(picture_of(from.data(), shape), view.flip, random, pixels);
    change(random, pixels);
    return {};
  }
  if (augment_.flip || augment_.crop > 0) {
    const auto range = static_cast<std::uint32_t>(2 * augment_.crop + 1);
    view.down = static_cast<int>(random.below(range)) - augment_.crop;
    view.right = static_cast<int>(random.below(range)) - augment_.crop;
  }
  // The mean colour outside the image leaves the mean of the batch as it is, and is a byte like every pixel.
  move_image(from, {1, shape.channels, shape.height, shape.width}, view, means_, pixels);
  change(random, pixels);
  return {.pixels = from, .view = view};
}

}  // namespace convoy
