// Tests pictures of every form: grey, transparent, 16 bits, inks, turned by Exif data; and their scaling against
// torchvision.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>
#include <zlib.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>

#include "data/exif.hpp"
#include "tests/support/files.hpp"

namespace convoy {
namespace {

#include "tests/data/resized.inc"

/// Appends a number in big-endian order.
void append(Bytes& bytes, std::uint32_t number, int width) {
  for (int i = width - 1; i >= 0; --i) bytes.push_back(static_cast<std::uint8_t>(number >> (8 * i)));
}

void append(Bytes& bytes, const Bytes& more) { bytes.insert(bytes.end(), more.begin(), more.end()); }

/// A chunk of a PNG.
Bytes chunk(const std::string& type, const Bytes& data) {
  Bytes named(type.begin(), type.end());
  append(named, data);
  Bytes bytes;
  append(bytes, static_cast<std::uint32_t>(data.size()), 4);
  append(bytes, named);
  append(bytes, static_cast<std::uint32_t>(crc32(0, named.data(), static_cast<uInt>(named.size()))), 4);
  return bytes;
}

/// A PNG of one row, of samples as they are stored.
Bytes png_row(int width, int bits, int colour_type, const Bytes& samples) {
  Bytes header;
  append(header, static_cast<std::uint32_t>(width), 4);
  append(header, 1, 4);
  for (const int each : {bits, colour_type, 0, 0, 0}) header.push_back(static_cast<std::uint8_t>(each));
  Bytes row{0};  // no filter
  append(row, samples);
  uLongf size = compressBound(row.size());
  Bytes packed(size);
  EXPECT_EQ(compress(packed.data(), &size, row.data(), row.size()), Z_OK);
  packed.resize(size);
  Bytes bytes{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  for (const Bytes& each : {chunk("IHDR", header), chunk("IDAT", packed), chunk("IEND", {})}) append(bytes, each);
  return bytes;
}

Bytes pixels_of(const Bytes& file) { return decode_image(file, {3, 1, 1}).pixels; }

TEST(Pictures, InGreyHaveThreeEqualChannels) {
  EXPECT_EQ(pixels_of(png_row(2, 8, 0, {7, 200})), (Bytes{7, 7, 7, 200, 200, 200}));
  EXPECT_EQ(decode_image(png_row(2, 8, 0, {7, 200}), {1, 1, 1}).pixels, (Bytes{7, 200}));
}

/// 16 bits are the same colours as 8 bits, not light that is measured linearly.
TEST(Pictures, OfSixteenBitsKeepTheirColours) {
  EXPECT_EQ(pixels_of(png_row(2, 16, 2, {100, 100, 20, 20, 240, 240, 0, 0, 255, 255, 51, 51})),
            (Bytes{100, 20, 240, 0, 255, 51}));
  EXPECT_EQ(pixels_of(png_row(1, 16, 0, {90, 90})), (Bytes{90, 90, 90}));
}

TEST(Pictures, ThatAreTransparentAreDrawnOnWhite) {
  EXPECT_EQ(pixels_of(png_row(2, 8, 6, {10, 20, 30, 255, 10, 20, 30, 0})), (Bytes{10, 20, 30, 255, 255, 255}));
}

Bytes jpeg_of(int height, int width, int format, const Bytes& pixels) {
  tjhandle encoder = tjInitCompress();
  unsigned char* data = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(encoder, pixels.data(), width, 0, height, format, &data, &size, TJSAMP_444, 98, 0), 0);
  Bytes bytes(data, data + size);
  tjFree(data);
  tjDestroy(encoder);
  return bytes;
}

/// The inks of a JPEG are stored as the light that they let through: 255 is no ink.
TEST(Pictures, InInksBecomeColours) {
  Bytes inks;
  for (int i = 0; i < 256; ++i) append(inks, i % 16 < 8 ? Bytes{200, 100, 50, 255} : Bytes{200, 100, 50, 128});
  const Bytes file = jpeg_of(16, 16, TJPF_CMYK, inks);
  const Picture colour = decode_image(file, {3, 16, 16});
  ASSERT_EQ(colour.shape, (FeatureShape{3, 16, 16}));
  const std::array<int, 3> light{200, 100, 50};
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(colour.pixels[3 + c], light[c], 6) << c;
    EXPECT_NEAR(colour.pixels[36 + c], light[c] / 2, 6) << c;
  }
  const Picture grey = decode_image(file, {1, 16, 16});
  ASSERT_EQ(grey.shape, (FeatureShape{1, 16, 16}));
  EXPECT_NEAR(grey.pixels[1], 124, 6);
}

/// A JPEG of 16 x 24 pixels whose left half is dark and whose upper quarter is red, with Exif data.
Bytes turned_jpeg(int orientation, bool little) {
  Bytes pixels;
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 24; ++x)
      append(pixels, {static_cast<std::uint8_t>(y < 4 ? 250 : 40), 0, static_cast<std::uint8_t>(x < 12 ? 20 : 220)});
  }
  const Bytes plain = jpeg_of(16, 24, TJPF_RGB, pixels);
  Bytes tiff;
  const auto add = [&](std::uint32_t number, int width) {
    Bytes digits;
    append(digits, number, width);
    if (little) std::ranges::reverse(digits);
    append(tiff, digits);
  };
  append(tiff, little ? Bytes{'I', 'I'} : Bytes{'M', 'M'});
  add(42, 2);
  add(8, 4);
  add(2, 2);                                            // entries
  for (const std::uint32_t tag : {0x010FU, 0x0112U}) {  // the maker, and the orientation
    add(tag, 2);
    add(3, 2);
    add(1, 4);
    add(tag == 0x0112U ? static_cast<std::uint32_t>(orientation) : 5U, 2);
    add(0, 2);
  }
  add(0, 4);
  Bytes bytes(plain.begin(), plain.begin() + 2);
  append(bytes, {0xFF, 0xE1});
  append(bytes, static_cast<std::uint32_t>(tiff.size() + 8), 2);
  append(bytes, {'E', 'x', 'i', 'f', 0, 0});
  append(bytes, tiff);
  bytes.insert(bytes.end(), plain.begin() + 2, plain.end());
  return bytes;
}

/// Where Exif says that the first row is the right side, the red stripe is on the right, and so on.
TEST(Pictures, AreTurnedUpright) {
  struct Expected {
    int height, width;
    bool red_top, red_bottom, red_left, red_right;
  };
  const std::array<Expected, 8> all{{{16, 24, true, false, false, false},
                                     {16, 24, true, false, false, false},
                                     {16, 24, false, true, false, false},
                                     {16, 24, false, true, false, false},
                                     {24, 16, false, false, true, false},
                                     {24, 16, false, false, false, true},
                                     {24, 16, false, false, false, true},
                                     {24, 16, false, false, true, false}}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool little : {false, true}) {
      const Bytes file = turned_jpeg(orientation, little);
      EXPECT_EQ(orientation_of(file), orientation);
      const Picture picture = decode_image(file, {3, 16, 16});
      const Expected& expected = all[orientation - 1];
      ASSERT_EQ(picture.shape, (FeatureShape{3, expected.height, expected.width})) << orientation;
      const auto red = [&](int y, int x) { return picture.pixels[3 * (y * expected.width + x)] > 145; };
      const int bottom = expected.height - 1;
      const int right = expected.width - 1;
      EXPECT_EQ(red(0, right / 2), expected.red_top) << orientation;
      EXPECT_EQ(red(bottom, right / 2), expected.red_bottom) << orientation;
      EXPECT_EQ(red(bottom / 2, 0), expected.red_left) << orientation;
      EXPECT_EQ(red(bottom / 2, right), expected.red_right) << orientation;
    }
  }
}

/// Which side of the stored picture is dark tells a turned picture from a mirrored one.
TEST(Pictures, AreMirroredAsExifSays) {
  const auto blue = [](int orientation, double down, double across) {
    const Picture picture = decode_image(turned_jpeg(orientation, true), {3, 16, 16});
    const auto y = static_cast<int>(down * (picture.shape.height - 1));
    const auto x = static_cast<int>(across * (picture.shape.width - 1));
    return picture.pixels[static_cast<std::size_t>(3 * (y * picture.shape.width + x)) + 2] > 120;
  };
  EXPECT_TRUE(blue(1, 0.5, 0.9));
  EXPECT_TRUE(blue(2, 0.5, 0.1));
  EXPECT_TRUE(blue(3, 0.5, 0.1));
  EXPECT_TRUE(blue(4, 0.5, 0.9));
  EXPECT_TRUE(blue(5, 0.9, 0.5));
  EXPECT_TRUE(blue(6, 0.9, 0.5));
  EXPECT_TRUE(blue(7, 0.1, 0.5));
  EXPECT_TRUE(blue(8, 0.1, 0.5));
}

/// Exif data are input of anybody. Every cut and every changed byte gives some orientation.
TEST(Pictures, WithDamagedExifDataAreStillRead) {
  const Bytes file = turned_jpeg(6, true);
  for (std::size_t length = 0; length < 80; ++length) {
    const int cut = orientation_of(std::span(file).first(length));
    EXPECT_TRUE(cut == 1 || cut == 6) << length;
  }
  for (std::size_t at = 2; at < 80; ++at) {
    for (const std::uint8_t value : {0x00, 0x7F, 0xFF}) {
      Bytes changed = file;
      changed[at] = value;
      const int orientation = orientation_of(changed);
      EXPECT_TRUE(orientation >= 1 && orientation <= 8) << at;
    }
  }
}

// ---- scaling -------------------------------------------------------------------------------------------------------

/// The image that tests/torch/make_resized.py paints.
Picture painted_as_there(int height, int width) {
  Picture picture{{3, height, width}, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      picture.pixels.push_back(static_cast<std::uint8_t>((3 * x + 2 * y) % 256));
      picture.pixels.push_back((x / 5 + y / 3) % 2 == 0 ? 230 : 20);
      picture.pixels.push_back(static_cast<std::uint8_t>((x * y / 7 + 5 * y) % 256));
    }
  }
  return picture;
}

void expect_as_torchvision(const Picture& picture, int resize, int side, int step,
                           std::span<const std::uint8_t> expected) {
  const FeatureShape shape{3, side, side};
  Bytes got(static_cast<std::size_t>(shape.size()));
  cut_view(picture, shape, {.resize = resize}, got);
  std::size_t next = 0;
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < side; y += step) {
      for (int x = 0; x < side; x += step, ++next) {
        ASSERT_LE(std::abs(got[(c * side + y) * side + x] - expected[next]), 1) << c << " " << y << " " << x;
      }
    }
  }
  EXPECT_EQ(next, expected.size());
}

TEST(Pictures, AreResizedAndCutAsByTorchvision) {
  expect_as_torchvision(painted_as_there(131, 97), 40, 32, 1, kSmallPortrait);
  expect_as_torchvision(painted_as_there(301, 421), 256, 224, 7, kLargeLandscape);
  expect_as_torchvision(painted_as_there(20, 33), 28, 24, 1, kEnlarged);
}

TEST(Pictures, ThatAreResizedAreDecodedWhole) {
  const Bytes file = jpeg_of(400, 600, TJPF_RGB, Bytes(720000, 99));
  EXPECT_EQ(decode_image(file, least_for({3, 40, 40}, 46)).shape, (FeatureShape{3, 400, 600}));
  EXPECT_LT(decode_image(file, least_for({3, 40, 40}, 0)).shape.height, 400);
}

}  // namespace
}  // namespace convoy
