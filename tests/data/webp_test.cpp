// Tests WebP pictures: with libwebp they are decoded, and without it an error names the package.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "data/dataset.hpp"
#include "data/webp.hpp"
#include "tests/support/files.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

Bytes from_hex(const std::string& text) {
  Bytes bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

/// Two rows of three pixels without loss. The third pixel is transparent, and the last is half transparent.
Bytes lossless() {
  return from_hex(
      "524946464c000000574542505650384c3f0000002f024000102f40906d3389790de2fe0ad720d2b6199f7f362db776826c9b99cc61fe3417"
      "b94080205db900fe8f0a60dbaba0a66d0336d4f9175323fa1ff70a00");
}

/// 8 x 8 pixels of the colour 90, 151, 60.
Bytes lossy() {
  return from_hex(
      "524946463a00000057454250565038202e000000d001009d012a0800080000c01225a00274ba01f80003b000fee2e0bff6777e9ddfa777f8"
      "18ffe6c0ae6b9f734000");
}

/// Two pictures, of which one follows the other.
Bytes animated() {
  return from_hex(
      "52494646b600000057454250565038580a00000012000000020000010000414e494d06000000000000000000414e4d465600000000000000"
      "0000020000010000640000025650384c3e0000002f024000102f40104012443063ecb7d088640126bb27945058b1c4461040124910fb330c"
      "b1c80282a2e74c0fc09bb3a6ea67390804c8106d0e44f43f6201414e4d462c0000000000000000000200000100006400000056"
      "50384c140000002f02400000075081540820000a9afec78888fe07");
}

std::string webp_error(const Bytes& file) {
  try {
    decode_image(file, {3, 1, 1});
  } catch (const Error& error) {
    return error.what();
  }
  return "decoded";
}

class Webp : public testing::Test {
 protected:
  void SetUp() override {
    if (!reads_webp()) GTEST_SKIP() << "this build decodes no WebP; libwebp-dev is missing";
  }
};

TEST_F(Webp, WithoutLossIsDrawnOnWhite) {
  const Picture picture = decode_image(lossless(), {3, 1, 1});
  EXPECT_EQ(picture.shape, (FeatureShape{3, 2, 3}));
  EXPECT_EQ(picture.pixels, (Bytes{10, 20, 30, 200, 100, 0, 255, 255, 255, 0, 0, 0, 255, 255, 255, 177, 227, 152}));
  const Picture grey = decode_image(lossless(), {1, 1, 1});
  EXPECT_EQ(grey.shape, (FeatureShape{1, 2, 3}));
  EXPECT_EQ(grey.pixels, (Bytes{18, 119, 255, 0, 255, 204}));
}

TEST_F(Webp, WithLossHasItsColours) {
  const Picture picture = decode_image(lossy(), {3, 1, 1});
  ASSERT_EQ(picture.shape, (FeatureShape{3, 8, 8}));
  for (std::size_t i = 0; i < picture.pixels.size(); ++i) {
    ASSERT_NEAR(picture.pixels[i], (std::array{90, 151, 60})[i % 3], 1) << i;
  }
}

TEST_F(Webp, ThatIsDamagedOrAnimatedIsRefused) {
  EXPECT_THAT(webp_error(animated()), HasSubstr("the WebP is animated"));
  for (const Bytes& whole : {lossless(), lossy()}) {
    for (std::size_t size = 12; size < whole.size() - 8; size += 4) {
      EXPECT_THAT(webp_error({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}), HasSubstr("WebP"))
          << size;
    }
  }
  Bytes other = lossy();
  other[15] = 'X';  // the kind of its first part
  EXPECT_THAT(webp_error(other), HasSubstr("not a valid WebP"));
}

TEST_F(Webp, IsOneOfTheFilesOfAFolder) {
  const TemporaryFolder folder;
  for (const char* file : {"train/a/1.webp", "train/b/1.WEBP", "test/a/2.webp"}) {
    std::filesystem::create_directories(std::filesystem::path(folder.path() + "/" + file).parent_path());
    write_file(folder.path() + "/" + file, lossy());
  }
  const DataSet data = open_data(folder.path(), 1, {3, 8, 8});
  EXPECT_EQ(data.training.count(), 2);
  EXPECT_EQ(data.test.count(), 1);
  EXPECT_TRUE(data.notices.empty());
}

TEST(BuildsWithoutWebp, NameThePackage) {
  if (reads_webp()) GTEST_SKIP() << "this build decodes WebP";
  EXPECT_THAT(webp_error(lossy()), HasSubstr("install libwebp-dev"));
  EXPECT_FALSE(is_image_file("a.webp"));
  EXPECT_EQ(other_image_format("a.webp"), "webp");
}

}  // namespace
}  // namespace convoy
