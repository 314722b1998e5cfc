// Tests the decoding and scaling of photographs, class folders, and batches that are decoded ahead.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>

#include <filesystem>
#include <functional>
#include <numeric>

#include "core/error.hpp"
#include "data/batches.hpp"
#include "data/image_file.hpp"
#include "tests/support/files.hpp"
#include "tests/support/images.hpp"
#include "tests/support/process.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

/// Gives the colour of each pixel.
using Paint = std::function<std::array<int, 3>(int row, int column)>;

Bytes painted(int height, int width, const Paint& paint) {
  Bytes pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (const int part : paint(y, x)) pixels.push_back(static_cast<std::uint8_t>(part));
    }
  }
  return pixels;
}

Bytes png(int height, int width, const Paint& paint) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  const Bytes pixels = painted(height, width, paint);
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr);
  Bytes bytes(size);
  EXPECT_NE(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr), 0);
  bytes.resize(size);
  return bytes;
}

Bytes jpeg(int height, int width, const Paint& paint) {
  const Bytes pixels = painted(height, width, paint);
  tjhandle encoder = tjInitCompress();
  unsigned char* data = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(encoder, pixels.data(), width, 0, height, TJPF_RGB, &data, &size, TJSAMP_444, 95, 0), 0);
  Bytes bytes(data, data + size);
  tjFree(data);
  tjDestroy(encoder);
  return bytes;
}

Paint plain(int red, int green, int blue) {
  return [=](int, int) { return std::array<int, 3>{red, green, blue}; };
}

/// An image whose red grows with the column and whose green grows with the row.
std::array<int, 3> slopes(int row, int column) { return {column, row, 100}; }

Bytes view_of(const Picture& picture, const FeatureShape& shape, const View& view = {}) {
  Bytes bytes(static_cast<std::size_t>(shape.size()));
  cut_view(picture, shape, view, bytes);
  return bytes;
}

TEST(Photographs, AreDecodedFromJpegAndPng) {
  const Picture exact = decode_image(png(40, 60, slopes), {3, 8, 8});
  EXPECT_EQ(exact.shape, (FeatureShape{3, 40, 60}));
  EXPECT_EQ(exact.pixels, painted(40, 60, slopes));
  const Picture near = decode_image(jpeg(40, 60, slopes), {3, 40, 60});
  ASSERT_EQ(near.shape, exact.shape);
  for (std::size_t i = 0; i < exact.pixels.size(); ++i) ASSERT_NEAR(near.pixels[i], exact.pixels[i], 6) << i;
  // The decoder may shrink a JPEG, but not below 8/7 of the wanted size.
  const Picture small = decode_image(jpeg(400, 600, slopes), {3, 80, 80});
  EXPECT_LT(small.shape.height, 200);
  EXPECT_GE(small.shape.height, 92);
  // Grey is the usual weighted sum of the colours.
  EXPECT_NEAR(decode_image(png(4, 4, plain(200, 100, 50)), {1, 4, 4}).pixels[0], 124, 10);
  EXPECT_NEAR(decode_image(jpeg(16, 16, plain(200, 100, 50)), {1, 4, 4}).pixels[0], 124, 3);
}

TEST(Photographs, AreScaledAndCut) {
  const Picture even = decode_image(png(30, 50, plain(7, 77, 177)), {3, 16, 16});
  const Bytes cut = view_of(even, {3, 16, 16}, {0.1, 0.9, false});
  for (int i = 0; i < 256; ++i) {
    ASSERT_EQ(cut[i], 7);
    ASSERT_EQ(cut[static_cast<std::size_t>(i) + 512], 177);
  }
  // At half scale, 64 by 128 covers 8/7 of 28 by 28.
  const Picture slope = decode_image(png(64, 128, slopes), {3, 28, 28});
  const auto red = [&](const View& view, int column) {
    return static_cast<int>(view_of(slope, {3, 28, 28}, view)[column]);
  };
  EXPECT_NEAR(red({}, 0), 64 - 28, 1);
  EXPECT_NEAR(red({}, 27), 64 + 27, 1);
  EXPECT_NEAR(red({0.5, 0.5, true}, 0), 64 + 27, 1);
  EXPECT_NEAR(red({0.5, 0.0, false}, 0), 1, 1);
  EXPECT_NEAR(red({0.5, 1.0, false}, 27), 127, 1);
  const Bytes green = view_of(slope, {3, 28, 28}, {1.0, 0.5, false});
  EXPECT_NEAR(green[784 + 27 * 28], 63, 1);
  // Small images are enlarged.
  const Bytes larger = view_of(decode_image(png(4, 4, plain(9, 9, 9)), {3, 20, 20}), {3, 20, 20});
  EXPECT_THAT(larger, testing::Each(9));
}

TEST(Photographs, ThatAreDamagedAreErrors) {
  const auto error_of = [](const Bytes& bytes, const FeatureShape& least = {3, 8, 8}) -> std::string {
    try {
      decode_image(bytes, least);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  Bytes cut = jpeg(32, 32, slopes);
  cut.resize(cut.size() - 30);
  // The texts are Convoy's own; those of the libraries that decode are made for programmers.
  EXPECT_EQ(error_of(cut), "the JPEG is damaged or incomplete: not all of its pixels can be decoded");
  Bytes header = jpeg(32, 32, slopes);
  header.resize(10);
  EXPECT_THAT(error_of(header), testing::StartsWith("its header gives 0 x 0 pixels"));
  Bytes image = png(32, 32, slopes);
  image[image.size() / 2] ^= 0xFF;
  EXPECT_EQ(error_of(image), "the PNG is damaged or incomplete: not all of its pixels can be decoded");
  image.resize(10);
  EXPECT_EQ(error_of(image), "the image is not a valid PNG: its header is damaged or incomplete");
  EXPECT_THAT(error_of({'G', 'I', 'F', '8', '9', 'a'}), HasSubstr("neither a JPEG nor a PNG"));
  EXPECT_THAT(error_of({}), HasSubstr("neither a JPEG nor a PNG"));
  EXPECT_THAT(error_of(png(8, 8, slopes), {2, 8, 8}), HasSubstr("but the net takes 2"));
  // The header claims more pixels than the limit.
  Bytes huge = png(8, 8, slopes);
  for (std::size_t at = 16; at < 24; ++at) huge[at] = 0x7F;
  EXPECT_NE(error_of(huge), "");
}

class ImageFolders : public testing::Test {
 protected:
  void put(const std::string& path, const Bytes& bytes) const {
    const std::filesystem::path file = std::filesystem::path(folder_.path()) / path;
    std::filesystem::create_directories(file.parent_path());
    write_file(file.string(), bytes);
  }
  DataSet open(Corrupt corrupt = Corrupt::refuse) const { return open_data(folder_.path(), 1, {3, 12, 10}, corrupt); }
  std::string error_of_opening() const {
    try {
      open();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
};

TEST_F(ImageFolders, AreClassesOfWhichEveryFifthImageIsForTesting) {
  for (int i = 0; i < 11; ++i) put(fmt::format("cats/{:02}.png", i), png(20, 20, plain(10 * i, 0, 0)));
  for (int i = 0; i < 5; ++i) put(fmt::format("dogs/{:02}.JPG", i), jpeg(30, 20, plain(0, 20 * i, 0)));
  put("dogs/notes.txt", {'x'});
  put(".hidden/a.png", {'x'});
  put("readme.txt", {'x'});
  const DataSet data = open();
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"cats", "dogs"}));
  EXPECT_EQ(data.classes, 2);
  EXPECT_EQ(data.training.count(), 13);
  EXPECT_EQ(data.test.count(), 3);
  EXPECT_THAT(data.test.files[0], HasSubstr("cats/04.png"));
  EXPECT_EQ(data.test.labels, (std::vector<std::uint16_t>{0, 0, 1}));
  EXPECT_EQ(data.training.shape, (FeatureShape{3, 12, 10}));
}

TEST_F(ImageFolders, MayBeDividedAlready) {
  put("train/a/1.png", png(8, 8, slopes));
  put("train/b/1.png", png(8, 8, slopes));
  EXPECT_THAT(error_of_opening(), HasSubstr("neither 'test' nor 'val'"));
  put("val/b/2.png", png(8, 8, slopes));
  const DataSet data = open();
  EXPECT_EQ(data.training.count(), 2);
  EXPECT_EQ(data.test.labels, (std::vector<std::uint16_t>{1}));
  put("val/c/2.png", png(8, 8, slopes));
  EXPECT_THAT(error_of_opening(), HasSubstr("class c has a folder for testing"));
}

TEST_F(ImageFolders, MayHaveImagesForValidation) {
  for (const char* file : {"train/a/1.png", "train/b/1.png", "val/b/2.png", "test/a/3.png", "test/b/3.png"})
    put(file, png(8, 8, slopes));
  put("test/b/4.gif", {'G', 'I', 'F', '8'});
  const DataSet data = open();
  EXPECT_EQ(data.training.count(), 2);
  EXPECT_EQ(data.validation.labels, (std::vector<std::uint16_t>{1}));
  EXPECT_EQ(data.test.labels, (std::vector<std::uint16_t>{0, 1}));
  EXPECT_THAT(data.notices, testing::ElementsAre(AllOf(HasSubstr("test: 1 files"), HasSubstr("gif"))));
  put("val/c/2.png", png(8, 8, slopes));
  EXPECT_THAT(error_of_opening(), HasSubstr("class c has a folder for validation"));
}

TEST_F(ImageFolders, MayHaveNoClassesForTraining) {
  for (const char* file : {"1.png", "2.png", "3.png"}) put(file, png(8, 8, slopes));
  EXPECT_THAT(error_of_opening(), AllOf(HasSubstr("its images are in no folders of classes"), HasSubstr("/train")));
  for (const char* file : {"train/1.png", "train/2.png", "train/3.png"}) put(file, png(8, 8, slopes));
  put("train/4.gif", {'G', 'I', 'F', '8'});
  EXPECT_THAT(error_of_opening(), HasSubstr("neither 'test' nor 'val'"));
  for (const char* file : {"test/a/1.png", "test/b/1.png", "val/b/2.png"}) put(file, png(8, 8, slopes));
  DataSet data = open();
  EXPECT_FALSE(data.labelled);
  EXPECT_EQ(data.training.count(), 3);
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(data.test.labels, (std::vector<std::uint16_t>{0, 1}));
  EXPECT_EQ(data.validation.labels, (std::vector<std::uint16_t>{1}));
  EXPECT_THAT(data.notices, testing::ElementsAre(AllOf(HasSubstr("train: 1 files"), HasSubstr("gif"))));
  data.validation = {};
  try {
    split_validation(data, 0.5, 1);
    ADD_FAILURE() << "images without classes were set aside";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the training images have no classes"));
  }
  put("val/c/2.png", png(8, 8, slopes));
  EXPECT_THAT(error_of_opening(), HasSubstr("class c has a folder for validation but none for testing"));
  // Images beside folders of classes are left out, as before.
  put("train/b/1.png", png(8, 8, slopes));
  put("train/c/1.png", png(8, 8, slopes));
  put("train/a/1.png", png(8, 8, slopes));
  EXPECT_TRUE(open().labelled);
  EXPECT_EQ(open().training.count(), 3);
}

TEST_F(ImageFolders, NameWhatCannotBeDecodedOrLeaveItOut) {
  for (int i = 0; i < 6; ++i) put(fmt::format("a/{}.png", i), png(16, 16, slopes));
  put("a/3.png", {'n', 'o', 't', ' ', 'o', 'n', 'e'});
  EXPECT_THAT(error_of_opening(), AllOf(HasSubstr("a/3.png"), HasSubstr("neither"), HasSubstr("--corrupt skip")));
  const DataSet data = open(Corrupt::skip);
  EXPECT_EQ(data.training.count(), 4);
  EXPECT_EQ(data.test.count(), 1);
  EXPECT_THAT(data.notices, testing::ElementsAre(AllOf(HasSubstr("a/3.png"), HasSubstr("left out"))));
}

TEST_F(ImageFolders, GiveBatchesThatAreFunctionsOfSeedAndPlace) {
  for (int i = 0; i < 20; ++i) {
    put(fmt::format("a/{:02}.png", i), png(24, 30, [i](int row, int column) {
          return std::array<int, 3>{5 * i + row, 3 * i + column, 200 - 7 * i};
        }));
  }
  const DataSet data = open();
  const Augmentation augment{.flip = true, .crop = 1};
  const auto take = [&](const Batches& batches, int epoch, int index) {
    Images images = batches.blank();
    std::vector<int> labels;
    batches.fill(epoch, index, images, labels);
    return images;
  };
  const Batches batches(data, Part::training, 5, 3, augment);
  std::vector<Images> in_order;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int index = 0; index < batches.count(); ++index) in_order.push_back(take(batches, epoch, index));
  }
  const Batches again(data, Part::training, 5, 3, augment);
  for (int place = 2 * batches.count() - 1; place >= 0; --place) {
    const Images images = take(again, place / batches.count(), place % batches.count());
    EXPECT_TRUE(same_pixels(images, in_order[place])) << place;
  }
  EXPECT_FALSE(same_pixels(take(Batches(data, Part::training, 5, 4, augment), 0, 0), in_order[0]));
  EXPECT_FALSE(same_pixels(in_order[0], in_order[3])) << "the order must differ between epochs";
  // The mean of normalised values is near 0.
  double sum = 0.0;
  for (const Images& each : in_order) {
    const Tensor values = normalised(each);
    sum = std::accumulate(values.span().begin(), values.span().end(), sum);
  }
  EXPECT_NEAR(sum / static_cast<double>(in_order.size() * in_order[0].pixels.size()), 0.0, 0.2);
  // The last test batch is filled up with black.
  const Batches test(data, Part::test, 3, 3, {});
  ASSERT_EQ(test.count(), 2);
  const Images last = take(test, 0, 1);
  EXPECT_NE(last.pixels.span().front(), 0);
  EXPECT_EQ(last.pixels.span().back(), 0);
}

TEST_F(ImageFolders, ThatLoseAnImageInARunAreErrors) {
  for (int i = 0; i < 5; ++i) put(fmt::format("a/{}.png", i), png(16, 16, slopes));
  const DataSet data = open();
  const Batches batches(data, Part::training, 4, 3, {});
  std::filesystem::remove(data.training.files[2]);
  Images images = batches.blank();
  std::vector<int> labels;
  EXPECT_THAT([&] { batches.fill(0, 0, images, labels); }, testing::ThrowsMessage<Error>(HasSubstr("a/2.png")));
}

TEST(RealPhotographs, AreReadByClass) {
  const std::string folder = real_data("photos");
  if (folder.empty()) GTEST_SKIP() << "the photographs are not here; set CONVOY_TEST_DATA";
  const DataSet data = open_data(folder, 1, {3, 64, 64});
  EXPECT_EQ(data.classes, 20);
  EXPECT_EQ(data.training.count() + data.test.count(), 1372);
  EXPECT_TRUE(data.notices.empty());
}

}  // namespace
}  // namespace convoy
