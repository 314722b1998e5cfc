// Scaling and cropping of one photograph.

#include <algorithm>
#include <cmath>

#include "data/image_file.hpp"

namespace convoy {
namespace {

/// The elements of the source that one element of a row or column is made of, from `first` on, and their weights.
struct Taps {
  int first = 0;
  std::vector<float> weights;
};

/// The taps of `wanted` elements that together span `length` elements of a source of `extent` elements, from `start`
/// on.
std::vector<Taps> taps_of(int extent, int wanted, double start, double length) {
  const double scale = length / wanted;
  std::vector<Taps> all(static_cast<std::size_t>(wanted));
  const double width = std::max(1.0, scale);
  for (int i = 0; i < wanted; ++i) {
    const double centre = (i + 0.5) * scale + start - 0.5;
    const int first = std::clamp(static_cast<int>(std::ceil(centre - width)), 0, extent - 1);
    const int last = std::clamp(static_cast<int>(std::floor(centre + width)), first, extent - 1);
    Taps& taps = all[i];
    taps.first = first;
    float sum = 0.0F;
    for (int x = first; x <= last; ++x) {
      const auto weight = static_cast<float>(std::max(0.0, 1.0 - std::abs(x - centre) / width));
      taps.weights.push_back(weight);
      sum += weight;
    }
    if (sum <= 0.0F) {
      std::ranges::fill(taps.weights, 1.0F);
      sum = static_cast<float>(taps.weights.size());
    }
    for (float& weight : taps.weights) weight /= sum;
  }
  return all;
}

/// The region of a view of a picture whose shorter side is scaled to view.resize pixels. The longer side and the
/// position are whole numbers of pixels, as in torchvision.
Region resized_region(const FeatureShape& have, const FeatureShape& shape, const View& view) {
  const int shorter = std::min(have.height, have.width);
  const auto scaled = [&](int extent) {
    const long pixels = static_cast<long>(view.resize) * extent / shorter;
    return static_cast<double>(pixels);
  };
  const double down = have.height / scaled(have.height);
  const double across = have.width / scaled(have.width);
  return {.top = std::nearbyint(view.down * (scaled(have.height) - shape.height)) * down,
          .left = std::nearbyint(view.right * (scaled(have.width) - shape.width)) * across,
          .height = shape.height * down,
          .width = shape.width * across};
}

/// The region of a view of a picture that covers kToSpare times the size of `shape`.
Region covering_region(const FeatureShape& have, const FeatureShape& shape, const View& view) {
  const double scale = std::min(have.height / (kToSpare * shape.height), have.width / (kToSpare * shape.width));
  const double height = shape.height * scale;
  const double width = shape.width * scale;
  return {view.down * (have.height - height), view.right * (have.width - width), height, width};
}

}  // namespace

FeatureShape least_for(const FeatureShape& shape, int resize) {
  constexpr int kWhole = 1 << 20;
  return resize > 0 ? FeatureShape{shape.channels, kWhole, kWhole} : shape;
}

void cut_view(const Picture& picture, const FeatureShape& shape, const View& view, std::span<std::uint8_t> to) {
  const FeatureShape& have = picture.shape;
  if (have == shape && view.resize == 0) {
    for (int c = 0; c < shape.channels; ++c) {
      for (int y = 0; y < shape.height; ++y) {
        for (int x = 0; x < shape.width; ++x) {
          const int from = view.flip ? shape.width - 1 - x : x;
          to[(c * shape.height + y) * shape.width + x] = picture.pixels[(y * shape.width + from) * shape.channels + c];
        }
      }
    }
    return;
  }
  const Region region = view.resize > 0 ? resized_region(have, shape, view) : covering_region(have, shape, view);
  cut_region(picture, shape, region, view.flip, to);
}

void cut_region(const Picture& picture, const FeatureShape& shape, const Region& region, bool flip,
                std::span<std::uint8_t> to) {
  const FeatureShape& have = picture.shape;
  const std::vector<Taps> rows = taps_of(have.height, shape.height, region.top, region.height);
  const std::vector<Taps> columns = taps_of(have.width, shape.width, region.left, region.width);
  std::vector<float> line(static_cast<std::size_t>(have.width));
  for (int c = 0; c < shape.channels; ++c) {
    for (int y = 0; y < shape.height; ++y) {
      const Taps& down = rows[y];
      std::ranges::fill(line, 0.0F);
      for (std::size_t t = 0; t < down.weights.size(); ++t) {
        const std::size_t row = static_cast<std::size_t>(down.first) + t;
        const std::uint8_t* from = picture.pixels.data() +
                                   (row * line.size()) * static_cast<std::size_t>(have.channels) +
                                   static_cast<std::size_t>(c);
        for (std::size_t x = 0; x < line.size(); ++x) {
          line[x] += down.weights[t] * static_cast<float>(from[x * static_cast<std::size_t>(have.channels)]);
        }
      }
      std::uint8_t* out = to.data() + (static_cast<std::size_t>(c) * static_cast<std::size_t>(shape.height) +
                                       static_cast<std::size_t>(y)) *
                                          static_cast<std::size_t>(shape.width);
      for (int x = 0; x < shape.width; ++x) {
        const Taps& across = columns[flip ? shape.width - 1 - x : x];
        float sum = 0.0F;
        for (std::size_t t = 0; t < across.weights.size(); ++t) {
          sum += across.weights[t] * line[static_cast<std::size_t>(across.first) + t];
        }
        out[x] = static_cast<std::uint8_t>(std::clamp(sum + 0.5F, 0.0F, 255.0F));
      }
    }
  }
}

}  // namespace convoy
