#include "data/image_file.hpp"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <memory>
#include <mutex>

#include "core/thread_team.hpp"
#include "data/read_bytes.hpp"

namespace convoy {
namespace {

constexpr long kMostPixels = 1L << 27;
/// A photograph is scaled to this many times the size that is cut out.
constexpr double kToSpare = 8.0 / 7.0;

struct CloseDecoder {
  void operator()(void* decoder) const { tjDestroy(decoder); }
};
using Decoder = std::unique_ptr<void, CloseDecoder>;

/// The smallest scale at which a JPEG can be decoded and still covers `least` times kToSpare.
tjscalingfactor fraction(int width, int height, const FeatureShape& least) {
  int count = 0;
  const tjscalingfactor* all = tjGetScalingFactors(&count);
  tjscalingfactor best{1, 1};
  for (int i = 0; i < count; ++i) {
    const bool covers =
        TJSCALED(width, all[i]) >= kToSpare * least.width && TJSCALED(height, all[i]) >= kToSpare * least.height;
    if (covers && all[i].num * best.denom < best.num * all[i].denom) best = all[i];
  }
  return best;
}

void check_size(long width, long height) {
  if (width < 1 || height < 1 || width * height > kMostPixels) {
    fail("its header gives {} x {} pixels; expected 1 to {} pixels", width, height, kMostPixels);
  }
}

Picture decode_jpeg(std::span<const std::uint8_t> bytes, const FeatureShape& least) {
  const Decoder decoder(tjInitDecompress());
  if (decoder == nullptr) fail("the JPEG decoder cannot be made: {}", tjGetErrorStr2(nullptr));
  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colours = 0;
  const auto size = static_cast<unsigned long>(bytes.size());
  if (tjDecompressHeader3(decoder.get(), bytes.data(), size, &width, &height, &subsampling, &colours) != 0) {
    fail("the image is not a valid JPEG: {}", tjGetErrorStr2(decoder.get()));
  }
  check_size(width, height);
  if (colours == TJCS_CMYK || colours == TJCS_YCCK) fail("the JPEG is in CMYK, for printing; save it in RGB");
  const tjscalingfactor scale = fraction(width, height, least);
  Picture picture{{least.channels, TJSCALED(height, scale), TJSCALED(width, scale)}, {}};
  picture.pixels.resize(static_cast<std::size_t>(picture.shape.size()));
  const int format = least.channels == 1 ? TJPF_GRAY : TJPF_RGB;
  if (tjDecompress2(decoder.get(), bytes.data(), size, picture.pixels.data(), picture.shape.width, 0,
                    picture.shape.height, format, TJFLAG_STOPONWARNING) != 0) {
    fail("the JPEG is damaged: {}", tjGetErrorStr2(decoder.get()));
  }
  return picture;
}

Picture decode_png(std::span<const std::uint8_t> bytes, const FeatureShape& least) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0)
    fail("the image is not a valid PNG: {}", image.message);
  const std::unique_ptr<png_image, decltype(&png_image_free)> release(&image, &png_image_free);
  check_size(static_cast<long>(image.width), static_cast<long>(image.height));
  image.format = least.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  Picture picture{{least.channels, static_cast<int>(image.height), static_cast<int>(image.width)}, {}};
  picture.pixels.resize(PNG_IMAGE_SIZE(image));
  const png_color white{255, 255, 255};
  if (png_image_finish_read(&image, &white, picture.pixels.data(), 0, nullptr) == 0) {
    fail("the PNG is damaged: {}", image.message);
  }
  return picture;
}

/// The elements of the source that one element of a row or column is made of, from `first` on, and their weights.
struct Taps {
  int first = 0;
  std::vector<float> weights;
};

/// The taps of `wanted` elements of a source of `extent` elements. One element of the result spans `scale` elements of
/// the source, and the result begins `offset` of its elements from the source's start.
std::vector<Taps> taps_of(int extent, int wanted, double scale, double offset) {
  std::vector<Taps> all(static_cast<std::size_t>(wanted));
  const double width = std::max(1.0, scale);
  for (int i = 0; i < wanted; ++i) {
    const double centre = (i + offset + 0.5) * scale - 0.5;
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

}  // namespace

void on_all_cores(int count, const std::function<void(int)>& work) {
  ThreadTeam team(std::min(hardware_threads(), std::max(1, count)));
  team.split(count, [&](int, int first, int last) {
    for (int i = first; i < last; ++i) work(i);
  });
}

bool is_image_file(const std::string& file) {
  std::string name = file;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.ends_with(".jpg") || name.ends_with(".jpeg") || name.ends_with(".png");
}

Picture decode_image(std::span<const std::uint8_t> bytes, const FeatureShape& least) {
  if (least.channels != 1 && least.channels != 3) {
    fail("photographs are decoded to 1 or 3 channels, but the net takes {}; set input.channels to 1 or 3",
         least.channels);
  }
  constexpr std::array<std::uint8_t, 4> kPng{0x89, 'P', 'N', 'G'};
  constexpr std::array<std::uint8_t, 2> kJpeg{0xFF, 0xD8};
  const auto begins = [&](const auto& magic) {
    return bytes.size() > magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  if (begins(kPng)) return decode_png(bytes, least);
  if (begins(kJpeg)) return decode_jpeg(bytes, least);
  fail("the file is neither a JPEG nor a PNG");
}

Picture read_image(const std::string& file, const FeatureShape& least) {
  constexpr std::size_t kLargestFile = std::size_t{1} << 28;
  const std::vector<std::uint8_t> bytes = read_bytes(file, kLargestFile);
  try {
    return decode_image(bytes, least);
  } catch (const Error& error) {
    fail("{}: {}", file, error.what());
  }
}

void cut_view(const Picture& picture, const FeatureShape& shape, const View& view, std::span<std::uint8_t> to) {
  const FeatureShape& have = picture.shape;
  if (have == shape) {
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
  // One element of the view spans `scale` elements of the picture.
  const double scale = std::min(have.height / (kToSpare * shape.height), have.width / (kToSpare * shape.width));
  const std::vector<Taps> rows =
      taps_of(have.height, shape.height, scale, view.down * (have.height / scale - shape.height));
  const std::vector<Taps> columns =
      taps_of(have.width, shape.width, scale, view.right * (have.width / scale - shape.width));
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
        const Taps& across = columns[view.flip ? shape.width - 1 - x : x];
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
