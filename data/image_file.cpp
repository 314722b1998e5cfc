#include "data/image_file.hpp"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <memory>
#include <mutex>
#include <new>

#include "core/thread_team.hpp"
#include "data/exif.hpp"
#include "data/read_bytes.hpp"
#include "data/webp.hpp"

namespace convoy {

void check_picture_size(long width, long height) {
  constexpr long kMostPixels = 1L << 27;
  if (width < 1 || height < 1 || width * height > kMostPixels) {
    fail("its header gives {} x {} pixels; expected 1 to {} pixels", width, height, kMostPixels);
  }
}

namespace {

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

/// Returns a picture of four inks, cyan, magenta, yellow and black, in colour or in grey. JPEGs have 255 where there is
/// no ink, as Adobe's programs write them.
Picture from_inks(const Picture& inks, int channels) {
  Picture picture{{channels, inks.shape.height, inks.shape.width}, {}};
  for (std::size_t at = 0; at < inks.pixels.size(); at += 4) {
    const auto light = [&](std::size_t ink) { return (inks.pixels[at + ink] * inks.pixels[at + 3] + 127) / 255; };
    const std::array<int, 3> rgb{light(0), light(1), light(2)};
    if (channels == 3) {
      for (const int each : rgb) picture.pixels.push_back(static_cast<std::uint8_t>(each));
    } else {
      picture.pixels.push_back(grey_of(rgb[0], rgb[1], rgb[2]));
    }
  }
  return picture;
}

Picture decode_jpeg(std::span<const std::uint8_t> bytes, const FeatureShape& least) {
  const Decoder decoder(tjInitDecompress());
  if (decoder == nullptr) throw std::bad_alloc();
  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colours = 0;
  const auto size = static_cast<unsigned long>(bytes.size());
  if (tjDecompressHeader3(decoder.get(), bytes.data(), size, &width, &height, &subsampling, &colours) != 0) {
    fail("the image is not a valid JPEG: its header is damaged or incomplete");
  }
  check_picture_size(width, height);
  const int orientation = orientation_of(bytes);
  const FeatureShape stored =
      lies_on_its_side(orientation) ? FeatureShape{least.channels, least.width, least.height} : least;
  const tjscalingfactor scale = fraction(width, height, stored);
  const bool inks = colours == TJCS_CMYK || colours == TJCS_YCCK;
  Picture picture{{inks ? 4 : least.channels, TJSCALED(height, scale), TJSCALED(width, scale)}, {}};
  picture.pixels.resize(static_cast<std::size_t>(picture.shape.size()));
  const int format = inks ? TJPF_CMYK : least.channels == 1 ? TJPF_GRAY : TJPF_RGB;
  if (tjDecompress2(decoder.get(), bytes.data(), size, picture.pixels.data(), picture.shape.width, 0,
                    picture.shape.height, format, TJFLAG_STOPONWARNING) != 0) {
    fail("the JPEG is damaged or incomplete: not all of its pixels can be decoded");
  }
  return upright(inks ? from_inks(picture, least.channels) : std::move(picture), orientation);
}

Picture decode_png(std::span<const std::uint8_t> bytes, const FeatureShape& least) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0)
    fail("the image is not a valid PNG: its header is damaged or incomplete");
  const std::unique_ptr<png_image, decltype(&png_image_free)> release(&image, &png_image_free);
  check_picture_size(static_cast<long>(image.width), static_cast<long>(image.height));
  image.format = least.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  // Without this flag, 16 bits that come without a gamma would be taken for linear light, and be brightened.
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  Picture picture{{least.channels, static_cast<int>(image.height), static_cast<int>(image.width)}, {}};
  picture.pixels.resize(PNG_IMAGE_SIZE(image));
  const png_color white{255, 255, 255};
  if (png_image_finish_read(&image, &white, picture.pixels.data(), 0, nullptr) == 0) {
    fail("the PNG is damaged or incomplete: not all of its pixels can be decoded");
  }
  return picture;
}

}  // namespace

void on_all_cores(int count, const std::function<void(int)>& work) {
  ThreadTeam team(std::min(hardware_threads(), std::max(1, count)));
  team.split(count, [&](int, int first, int last) {
    for (int i = first; i < last; ++i) work(i);
  });
}

namespace {

std::string in_small_letters(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

bool is_image_file(const std::string& file) {
  const std::string name = in_small_letters(file);
  return name.ends_with(".jpg") || name.ends_with(".jpeg") || name.ends_with(".png") ||
         (reads_webp() && name.ends_with(".webp"));
}

std::string other_image_format(const std::string& file) {
  const std::string name = in_small_letters(file);
  if (is_image_file(name)) return "";
  for (const std::string format : {"webp", "gif", "bmp", "tif", "tiff", "heic", "avif", "jp2"}) {
    if (name.ends_with("." + format)) return format;
  }
  return "";
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
  constexpr std::array<std::uint8_t, 4> kRiff{'R', 'I', 'F', 'F'};
  constexpr std::array<std::uint8_t, 4> kWebp{'W', 'E', 'B', 'P'};
  const bool webp = begins(kRiff) && bytes.size() >= 12 && std::equal(kWebp.begin(), kWebp.end(), bytes.begin() + 8);
  if (webp) return decode_webp(bytes, least);
  fail("the file is neither a JPEG nor a PNG nor a WebP");
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

}  // namespace convoy
